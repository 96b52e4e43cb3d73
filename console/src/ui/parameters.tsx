// The form for the parameters of a manual run.

import type { VNode } from "preact";

import type { Schemas } from "../api/client";
import { Text } from "./parts";

type Declared = Schemas["Job"]["parameters"];
type Values = { [name: string]: string | number | boolean };

/** The attributes of the field of a type. */
const kindOf = (type: "string" | "integer" | "boolean" | "date" | undefined) =>
  type === "integer" ? { type: "number" as const, step: 1 } : type === "date" ? { type: "date" as const } : { type: "text" as const };

/** A field for each parameter, with its default. */
export const parameterFields = (text: string, declared: Declared): VNode => (
  <>
    <p>{text}</p>
    {Object.entries(declared ?? {}).map(([name, { type, default: value, allowed, description }]) => {
      const id = `parameter-${name}`;
      const required = value === undefined;
      return (
        <p class="field" key={name}>
          <label for={id}><Text of={name} /></label>
          {allowed ? (
            <select id={id} name={name} required={required}>
              {required && <option value="" />}
              {allowed.map((one) => <option value={String(one)} selected={one === value} key={String(one)}>{String(one)}</option>)}
            </select>
          ) : type === "boolean" ? (
            <input id={id} name={name} type="checkbox" checked={value === true} />
          ) : (
            <input {...kindOf(type)} id={id} name={name} required={required} defaultValue={value === undefined ? "" : String(value)} />
          )}
          {description && <small><Text of={description} /></small>}
        </p>
      );
    })}
  </>
);

/** The values of the form, in their types. A parameter that is left empty has its default. */
export const parametersOf = (form: FormData, declared: Declared): Values => {
  const values: Values = {};
  for (const [name, { type, allowed }] of Object.entries(declared ?? {})) {
    const text = form.get(name);
    if (type === "boolean" && !allowed) values[name] = text !== null;
    else if (typeof text === "string" && text !== "") {
      values[name] = type === "integer" ? Number(text) : type === "boolean" ? text === "true" : text;
    }
  }
  return values;
};
