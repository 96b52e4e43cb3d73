// What can be done with jobs, from any screen.

import { get, post, type Schemas } from "./api/client";
import { t } from "./i18n";
import { ask, confirmed } from "./ui/dialogs";
import { parameterFields, parametersOf } from "./ui/parameters";
import { attempt, notify, failureText } from "./ui/notices";
import { go } from "./router";

export type JobRow = Schemas["JobRow"];

/** A verb that switches a job. */
export type SwitchVerb = "pause" | "resume" | "enable" | "disable";

const opposite: Record<SwitchVerb, SwitchVerb> = { pause: "resume", resume: "pause", enable: "disable", disable: "enable" };

/** The verb that changes how a job stands. */
export const toggleOf = (job: { paused: boolean; disabled?: boolean }): SwitchVerb =>
  job.disabled ? "enable" : job.paused ? "resume" : "pause";

/** Switches a job, on one node if it is named; the notice can undo it. */
export const switchJob = async (name: string, verb: SwitchVerb, node?: string): Promise<void> => {
  const words = t.value;
  if (verb === "disable" && !(await confirmed(words.disableAsk(name), words.disableText, words.disable))) return;
  const act = (which: SwitchVerb) => post("/api/v1/jobs/{name}/{verb}", { keys: { name, verb: which }, query: { node } });
  await attempt(words.done(words[verb], name), () => act(verb), () => {
    const back = opposite[verb];
    void attempt(words.done(words[back], name), () => act(back));
  });
};

/** Asks for the parameters that a job declares, and runs it once. */
export const runNow = async (name: string, node?: string): Promise<void> => {
  const words = t.value;
  let declared: Schemas["Job"]["parameters"];
  try {
    declared = (await get("/api/v1/jobs/{name}", { keys: { name } })).job.parameters;
  } catch (error) {
    return notify("bad", failureText(error));
  }
  const form = await ask(words.runAsk(name), parameterFields(words.runAskText, declared), words.run);
  if (!form) return;
  try {
    const body = { node: node ?? null, parameters: parametersOf(form, declared) };
    const answer = (await post("/api/v1/jobs/{name}/{verb}", { keys: { name, verb: "run" }, body })) as Schemas["RunAnswer"];
    const said = words.requested(answer.run);
    if (answer.warnings.length > 0) notify("bad", `${said} ${answer.warnings.join("; ")}`);
    else notify("good", said);
    go(["runs", answer.run]);
  } catch (error) {
    notify("bad", failureText(error));
  }
};
