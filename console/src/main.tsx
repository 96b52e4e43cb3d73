// The console: its frame, and which screen a place has.

import { render } from "preact";

import "./console.css";

import { get } from "./api/client";
import { clock, zone } from "./format";
import { language, languages, speak, t, type Language } from "./i18n";
import { connection, follow, live, namespace } from "./live/document";
import { href, place, screen } from "./router";
import { Activity } from "./screens/activity";
import { Calendar, Calendars } from "./screens/calendars";
import { Health } from "./screens/cluster";
import { EditJob, NewJob } from "./screens/editor";
import { Job } from "./screens/job";
import { Jobs } from "./screens/jobs";
import { Node, Nodes } from "./screens/nodes";
import { Overview } from "./screens/overview";
import { Run } from "./screens/run";
import { Runs } from "./screens/runs";
import { theme, type Theme } from "./theme";
import { Dialogs } from "./ui/dialogs";
import { useFetched } from "./ui/fetching";
import { Notices } from "./ui/notices";
import { PaletteButton, PaletteDialog, screens } from "./ui/palette";
import { Empty, Text } from "./ui/parts";

const Screen = () => {
  const [name = "", of, part] = place.value.path;
  switch (name) {
    case "":
      return <Overview />;
    case "jobs":
      if (of === undefined) return <Jobs />;
      return part === "edit" ? <EditJob key={of} name={of} /> : <Job key={of} name={of} />;
    case "new-job":
      return <NewJob />;
    case "runs":
      return of === undefined ? <Runs /> : <Run key={of} run={of} />;
    case "nodes":
      return of === undefined ? <Nodes /> : <Node key={of} name={of} />;
    case "calendars":
      return of === undefined ? <Calendars /> : <Calendar key={of} name={of} />;
    case "health":
      return <Health />;
    case "activity":
      return <Activity />;
    default:
      return <Empty>{t.value.notFound}</Empty>;
  }
};

const Menu = () => {
  const words = t.value;
  return (
    <nav class="menu" aria-label={words.menu}>
      {screens().map(({ path, text }) => (
        <a href={href(path)} aria-current={screen.value === (path[0] ?? "") ? "page" : undefined} key={text}>{text}</a>
      ))}
    </nav>
  );
};

const Pulse = () => {
  const words = t.value;
  const { state, since } = connection.value;
  const text = state === "live" ? words.live : state === "starting" ? words.starting : words.lost(clock(since));
  return <p class="pulse" role="status" data-state={state}>{text}</p>;
};

const NamespaceChoice = () => {
  const words = t.value;
  const found = useFetched("namespaces", (signal) => get("/api/v1/namespaces", { signal }));
  const names = (found.data?.namespaces ?? []).map((row) => row.name);
  if (names.length < 2) return null;
  return (
    <label class="namespace">
      <span class="unseen">{words.namespace}</span>
      <select value={namespace.value} onChange={(event) => (namespace.value = event.currentTarget.value)}>
        <option value="">{words.allNamespaces}</option>
        {names.map((name) => <option value={name} key={name}>{name}</option>)}
      </select>
    </label>
  );
};

const Footer = () => {
  const words = t.value;
  const caller = useFetched("whoami", (signal) => get("/api/v1/whoami", { signal })).data;
  return (
    <footer>
      <span>{words.zone(zone)}</span>
      <label>
        <span class="unseen">{words.languageLabel}</span>
        <select value={language.value} onChange={(event) => speak(event.currentTarget.value as Language)}>
          {Object.entries(languages).map(([tag, { languageName }]) => <option value={tag} lang={tag} key={tag}>{languageName}</option>)}
        </select>
      </label>
      <label>
        <span class="unseen">{words.themeLabel}</span>
        <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as Theme)}>
          {(["system", "light", "dark"] as const).map((one) => <option value={one} key={one}>{words.themes[one]}</option>)}
        </select>
      </label>
      {caller && <span><Text of={words.loggedInAs(caller.who)} /></span>}
      <form action="logout" method="post"><button>{words.logOut}</button></form>
    </footer>
  );
};

const App = () => {
  const words = t.value;
  return (
    <>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById("content")?.focus(); }}>{words.skip}</a>
      <header class="top">
        <a class="brand" href={href([])}><img src="favicon.svg" alt="" width="28" height="28" /> Evenkeel</a>
        <NamespaceChoice />
        <PaletteButton />
        <Pulse />
      </header>
      <div class="frame">
        <Menu />
        <main id="content" tabIndex={-1}>
          {live.value?.closed && <p class="failure" role="alert">{words.closedNode}</p>}
          <Screen />
        </main>
      </div>
      <Footer />
      <Notices />
      <Dialogs />
      <PaletteDialog />
    </>
  );
};

const root = document.getElementById("app");
if (root) {
  namespace.value = root.dataset["namespace"] ?? "";
  follow();
  render(<App />, root);
}
