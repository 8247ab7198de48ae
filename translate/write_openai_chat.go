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

func (w *Writer) chat() error {
	q := w.Request
	w.Str("model", w.Model)
	for p := range ParamCount {
		w.Param(p)
	}
	if len(q.Stop) > 0 {
		limit := len(q.Stop)
		switch {
		case w.Options.Official && Reasons(w.Model):
			limit = 0 // these models refuse it
		case w.Options.Official:
			limit = 4
		}
		if stop := w.Stops(limit); len(stop) > 0 {
			w.Texts("stop", stop)
		}
	}
	if effort := w.Effort(); effort != "" {
		w.Str("reasoning_effort", effort)
	}
	w.chatFormat()
	if q.Stream {
		w.Bool("stream", true)
		w.Member("stream_options", Value(`{"include_usage":true}`))
		if w.Options.Progress {
			w.Bool("return_progress", true)
		}
	}
	w.chatTools()
	w.Key("messages")
	w.Open('[')
	if system := w.System(); len(system) > 0 {
		w.Open('{')
		w.Str("role", "system")
		if err := w.chatContent(system, InSystem); err != nil {
			return err
		}
		w.Close('}')
	}
	for _, m := range w.Messages {
		if err := w.chatMessage(m); err != nil {
			return err
		}
	}
	w.Close(']')
	return nil
}

// Effort returns the effort to ask for, empty for the model's default.
func (w *Writer) Effort() string {
	g := w.Request.Reasoning
	field := w.Client.Reasoning
	if w.Options.Official && !Reasons(w.Model) {
		if g.Mode == "on" || g.Mode == "adaptive" {
			w.Drop(field)
		}
		return ""
	}
	known := []string{"low", "medium", "high"}
	if w.Options.Official {
		known = efforts(w.Model)
	}
	if g.Mode == "off" {
		if known[0] == "none" {
			return "none"
		}
		w.Drop(field)
		return ""
	}
	return KnownEffort(g.AsEffort(), known...)
}

func (w *Writer) chatFormat() {
	o := w.Request.Output
	switch o.Kind {
	case "json":
		w.Member("response_format", Value(`{"type":"json_object"}`))
	case "schema":
		w.Key("response_format")
		w.Open('{')
		w.Str("type", "json_schema")
		w.Key("json_schema")
		w.Open('{')
		w.SchemaNames(o)
		w.Close('}')
		w.Close('}')
	}
}

// SchemaNames writes the members of an output schema that both formats of
// OpenAI have.
func (w *Writer) SchemaNames(o Output) {
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
	if o.Strict != nil {
		w.Member("strict", o.Strict)
	}
}

func (w *Writer) chatTools() {
	c := w.Request.Choice
	if len(w.Tools) == 0 {
		return
	}
	w.Key("tools")
	w.Open('[')
	for _, t := range w.Tools {
		description, schema := w.Function(t)
		w.Open('{')
		w.Str("type", "function")
		w.Key("function")
		w.Open('{')
		w.Str("name", w.Names.Upstream(t.ToolName))
		if !description.Empty() {
			w.Text("description", description)
		}
		w.Member("parameters", ObjectSchema(schema))
		if t.Strict.IsTrue() {
			w.Bool("strict", true)
		}
		w.Close('}')
		if w.Options.CacheControl && t.Cache != nil {
			w.Member("cache_control", t.Cache)
		} else {
			w.DropCache(t.Cache, InTools)
		}
		w.Close('}')
	}
	w.Close(']')
	switch {
	case c.Mode == "any" && len(c.Tools) == 1:
		w.Key("tool_choice")
		w.Open('{')
		w.Str("type", "function")
		w.Key("function")
		w.Open('{')
		w.Str("name", w.Names.Upstream(c.Tools[0]))
		w.Close('}')
		w.Close('}')
	case len(c.Tools) > 0 && w.Options.Official && c.Mode != "none":
		w.Key("tool_choice")
		w.Open('{')
		w.Str("type", "allowed_tools")
		w.Key("allowed_tools")
		w.Open('{')
		w.Str("mode", openAIMode(c.Mode))
		w.Key("tools")
		w.Open('[')
		for _, t := range c.Tools {
			w.Open('{')
			w.Str("type", "function")
			w.Key("function")
			w.Open('{')
			w.Str("name", w.Names.Upstream(t))
			w.Close('}')
			w.Close('}')
		}
		w.Close(']')
		w.Close('}')
		w.Close('}')
	case c.Mode != "":
		w.Str("tool_choice", openAIMode(c.Mode))
	}
	w.Parallel()
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

// Parallel writes whether several calls may stand in one answer.
func (w *Writer) Parallel() {
	switch c := w.Request.Choice; {
	case c.Single:
		w.Bool("parallel_tool_calls", false)
	case c.Parallel:
		w.Bool("parallel_tool_calls", true)
	}
}
