// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package translate

func (w *writer) chat() error {
	q := w.q
	w.string("model", w.model)
	for p := range paramCount {
		w.param(p)
	}
	if len(q.Stop) > 0 {
		limit := len(q.Stop)
		switch {
		case w.o.Official && reasons(w.model):
			limit = 0 // these models refuse it
		case w.o.Official:
			limit = 4
		}
		if stop := w.stops(limit); len(stop) > 0 {
			w.texts("stop", stop)
		}
	}
	if effort := w.openAIEffort(); effort != "" {
		w.string("reasoning_effort", effort)
	}
	w.chatFormat()
	if q.Stream {
		w.bool("stream", true)
		w.member("stream_options", raw(`{"include_usage":true}`))
		if w.o.Progress {
			w.bool("return_progress", true)
		}
	}
	w.chatTools()
	w.key("messages")
	w.open('[')
	if system := w.system(); len(system) > 0 {
		w.open('{')
		w.string("role", "system")
		if err := w.chatContent(system, inSystem); err != nil {
			return err
		}
		w.close('}')
	}
	for _, m := range w.messages {
		if err := w.chatMessage(m); err != nil {
			return err
		}
	}
	w.close(']')
	return nil
}

// openAIEffort returns the effort to ask for, empty for the model's default.
func (w *writer) openAIEffort() string {
	g := w.q.Reasoning
	field := w.client.reasoning
	if w.o.Official && !reasons(w.model) {
		if g.Mode == "on" || g.Mode == "adaptive" {
			w.drop(field)
		}
		return ""
	}
	known := []string{"low", "medium", "high"}
	if w.o.Official {
		known = efforts(w.model)
	}
	if g.Mode == "off" {
		if known[0] == "none" {
			return "none"
		}
		w.drop(field)
		return ""
	}
	return named(g.effort(), known...)
}

func (w *writer) chatFormat() {
	o := w.q.Output
	switch o.Kind {
	case "json":
		w.member("response_format", raw(`{"type":"json_object"}`))
	case "schema":
		w.key("response_format")
		w.open('{')
		w.string("type", "json_schema")
		w.key("json_schema")
		w.open('{')
		w.schemaNames(o)
		w.close('}')
		w.close('}')
	}
}

// schemaNames writes the members of an output schema that both formats of
// OpenAI have.
func (w *writer) schemaNames(o Output) {
	if o.Name.empty() {
		w.string("name", "answer")
	} else {
		w.text("name", o.Name)
	}
	if !o.Description.empty() {
		w.text("description", o.Description)
	}
	if o.Schema != nil {
		w.member("schema", o.Schema)
	}
	if o.Strict != nil {
		w.member("strict", o.Strict)
	}
}

func (w *writer) chatTools() {
	c := w.q.Choice
	if len(w.tools) == 0 {
		return
	}
	w.key("tools")
	w.open('[')
	for _, t := range w.tools {
		description, schema := w.function(t)
		w.open('{')
		w.string("type", "function")
		w.key("function")
		w.open('{')
		w.string("name", w.names.upstream(t.ToolName))
		if !description.empty() {
			w.text("description", description)
		}
		w.member("parameters", objectSchema(schema))
		if t.Strict.isTrue() {
			w.bool("strict", true)
		}
		w.close('}')
		if w.o.CacheControl && t.Cache != nil {
			w.member("cache_control", t.Cache)
		} else {
			w.dropCache(t.Cache, inTools)
		}
		w.close('}')
	}
	w.close(']')
	switch {
	case c.Mode == "any" && len(c.Tools) == 1:
		w.key("tool_choice")
		w.open('{')
		w.string("type", "function")
		w.key("function")
		w.open('{')
		w.string("name", w.names.upstream(c.Tools[0]))
		w.close('}')
		w.close('}')
	case len(c.Tools) > 0 && w.o.Official && c.Mode != "none":
		w.key("tool_choice")
		w.open('{')
		w.string("type", "allowed_tools")
		w.key("allowed_tools")
		w.open('{')
		w.string("mode", openAIMode(c.Mode))
		w.key("tools")
		w.open('[')
		for _, t := range c.Tools {
			w.open('{')
			w.string("type", "function")
			w.key("function")
			w.open('{')
			w.string("name", w.names.upstream(t))
			w.close('}')
			w.close('}')
		}
		w.close(']')
		w.close('}')
		w.close('}')
	case c.Mode != "":
		w.string("tool_choice", openAIMode(c.Mode))
	}
	w.parallel()
}

func openAIMode(mode string) string {
	switch mode {
	case "any":
		return "required"
	case "":
		return "auto"
	}
	return mode
}

// parallel writes whether several calls may stand in one answer.
func (w *writer) parallel() {
	switch c := w.q.Choice; {
	case c.Single:
		w.bool("parallel_tool_calls", false)
	case c.Parallel:
		w.bool("parallel_tool_calls", true)
	}
}
