// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Writer writes the members that requests of both APIs have.
type Writer struct{ *translate.Writer }

// Effort returns the reasoning effort of the request, empty for the model's default.
func (w Writer) Effort() string {
	g := w.Request.Reasoning
	field := w.Client.Reasoning
	if w.Options.Official && !Reasons(w.Model) {
		if g.Mode == "on" || g.Mode == "adaptive" {
			w.Drop(field)
		}
		return ""
	}
	known := []string{"low", "medium", "high"}
	switch {
	case w.Options.Official:
		known = efforts(w.Model)
	case w.Options.NoEffort:
		known = []string{"none", "low", "medium", "high"}
	}
	if g.Mode == "off" {
		if known[0] == "none" {
			return "none"
		}
		w.Drop(field)
		// With the model's default, thinking could use up the bound of the answer.
		if w.Options.Official {
			return known[0]
		}
		return ""
	}
	return translate.KnownEffort(g.AsEffort(), known...)
}

// SchemaNames writes the members of an output schema.
func (w Writer) SchemaNames(o translate.Output) {
	if o.Name.Empty() {
		w.Str("name", "answer")
	} else {
		w.Text("name", o.Name)
	}
	if !o.Description.Empty() {
		w.Text("description", o.Description)
	}
	if o.Schema != nil {
		w.Member("schema", o.Schema)
	}
	if o.Strict != nil && (!o.Strict.IsTrue() || w.Strict(o.Strict, o.Schema)) {
		w.Member("strict", o.Strict)
	}
}

// Strict reports whether a schema is sent in strict mode.
func (w Writer) Strict(wanted, schema rawjson.Value) bool {
	// In strict mode OpenAI refuses some schemas that the strict modes of other providers accept.
	return wanted.IsTrue() && (!w.Options.Official || w.Client.Provider == w.Rules.Provider || strictly(schema))
}

// StrictTool is Strict for a tool.
func (w Writer) StrictTool(t translate.Tool) bool {
	strict := w.Strict(t.Strict, translate.ObjectSchema(t.Schema))
	if t.Strict.IsTrue() && !strict {
		w.Drop(w.Client.Strict)
	}
	return strict
}

// Mode returns the APIs' name for the mode of a tool choice.
func Mode(mode string) string {
	switch mode {
	case "any":
		return "required"
	case "":
		return "auto"
	}
	return mode
}

// Parallel writes whether one answer may contain several calls.
func (w Writer) Parallel() {
	switch c := w.Request.Choice; {
	case c.Single:
		w.Bool("parallel_tool_calls", false)
	case c.Parallel:
		w.Bool("parallel_tool_calls", true)
	}
}

// Marker writes a marker if the upstream takes markers.
func (w Writer) Marker(p translate.Part) {
	switch {
	case p.Cache == nil:
	case w.Options.Breakpoints:
		w.Member("prompt_cache_breakpoint", rawjson.Value(`{"mode":"explicit"}`))
	case w.Options.CacheControl && w.To.Traits().ServersVary:
		w.Member("cache_control", p.Cache)
	}
}

// FileName writes the name of a document. OpenAI demands one.
func (w Writer) FileName(m *translate.Media) {
	if m.Name.Empty() {
		w.Str("filename", "document.pdf")
	} else {
		w.Text("filename", m.Name)
	}
}

// MediaURL writes a medium as its URL, or a data URL.
func (w Writer) MediaURL(name string, m *translate.Media) {
	if m.Data.Empty() {
		w.Text(name, m.URL)
		return
	}
	w.Key(name)
	w.Body = rawjson.AppendEscaped(append(w.Body, `"data:`...), m.Type)
	w.Body = append(append(append(w.Body, ";base64,"...), m.Data...), '"')
}
