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

import "strings"

const NotStored = "what the provider has stored cannot be read by another one"

func (r *Reader) responses(body Value) error {
	q := r.Request
	q.IncludeUsage = true
	var in, tools Value
	for key, v := range body.Members() {
		var err error
		switch key {
		case "model":
			q.Model = v.Str()
		case "stream":
			q.Stream = v.IsTrue()
		case "instructions":
			if v.IsString() {
				q.System = append([]Part{{Text: v.Text()}}, q.System...)
			}
		case "input":
			in = v
		case "tools":
			tools = v
		case "tool_choice":
			err = r.responsesChoice(v)
		case "parallel_tool_calls":
			q.Choice.Single, q.Choice.Parallel = string(v) == "false", v.IsTrue()
		case "reasoning":
			for name, m := range v.Members() {
				switch name {
				case "effort":
					r.Effort(m.Str())
				case "summary", "generate_summary":
					q.Reasoning.Show = !m.Absent()
				default:
					r.DropUsed("reasoning."+name, m)
				}
			}
		case "text":
			for name, m := range v.Members() {
				if name == "format" {
					if err := r.Format("text.format", m, m); err != nil {
						return err
					}
				} else if !r.Param("text."+name, m) {
					r.DropUsed("text."+name, m)
				}
			}
		case "include":
			for _, s := range r.Elements(v) {
				switch s.Str() {
				case "reasoning.encrypted_content":
				case "message.output_text.logprobs":
					err = r.Refuse(key, "the upstream gives no log probabilities")
				default:
					r.Drop(key)
				}
			}
		case "top_logprobs":
			if !v.Absent() && string(v) != "0" {
				err = r.Refuse(key, "the upstream gives no log probabilities")
			}
		case "previous_response_id", "conversation", "prompt":
			if !v.Absent() {
				err = r.Refuse(key, NotStored)
			}
		case "context_management":
			err = r.ContextManagement(key, v, v)
		case "background":
			if v.IsTrue() {
				err = r.Refuse(key, "the upstream cannot answer in the background")
			}
		default:
			if !r.Param(key, v) {
				r.DropUsed(key, v)
			}
		}
		if err != nil {
			return err
		}
	}
	if err := r.responsesTools(tools, ""); err != nil {
		return err
	}
	return r.responsesInput(in)
}

func (r *Reader) responsesChoice(v Value) error {
	if v.IsString() {
		return r.Mode(v.Str())
	}
	c := &r.Request.Choice
	switch kind := v.Member("type").Str(); kind {
	case "function", "custom":
		c.Mode, c.Tools = "any", []ToolName{responsesName(v, kind)}
	case "allowed_tools":
		for _, t := range r.Elements(v.Member("tools")) {
			r.Allow(responsesName(t, t.Member("type").Str()))
		}
		return r.Allowed(v)
	default:
		if !v.Absent() {
			return r.Refuse("tool_choice", "the choice has no counterpart at this upstream")
		}
	}
	return nil
}

func responsesName(v Value, kind string) ToolName {
	return ToolName{
		Namespace: v.Member("namespace").Str(), Name: v.Member("name").Str(),
		Custom: strings.HasPrefix(kind, "custom"),
	}
}

func (r *Reader) responsesTools(v Value, namespace string) error {
	for i, t := range r.Elements(v) {
		r.Enter("tools", i)
		kind := t.Member("type").Str()
		switch kind {
		case "function", "custom":
			r.DropOthers(t, "type", "name", "description", "parameters", "strict", "format")
			tool := Tool{
				ToolName:    ToolName{Namespace: namespace, Name: t.Member("name").Str(), Custom: kind == "custom"},
				Description: t.Member("description").Text(),
				Schema:      Used(t.Member("parameters")),
				Strict:      Used(t.Member("strict")),
				Format:      Used(t.Member("format")),
			}
			if tool.Name == "" {
				return r.Malformed("name")
			}
			r.Request.Tools = append(r.Request.Tools, tool)
		case "namespace":
			if err := r.responsesTools(t.Member("tools"), t.Member("name").Str()); err != nil {
				return err
			}
			r.DropOthers(t, "type", "name", "tools")
		default:
			r.Drop("type")
			r.Hosted = r.Path("type")
		}
		r.Leave()
	}
	return nil
}

func (r *Reader) responsesInput(v Value) error {
	if v.IsString() {
		r.Message(User, []Part{{Text: v.Text()}})
		return nil
	}
	if !v.IsArray() {
		return r.Malformed("input")
	}
	r.Request.Messages = []Message{}
	results := false
	for i, item := range r.Elements(v) {
		r.Enter("input", i)
		kind := item.Member("type").Str()
		if kind == "" && item.Member("role").IsString() {
			kind = "message"
		}
		result := strings.HasSuffix(kind, "call_output")
		if err := r.responsesItem(kind, item, results); err != nil {
			return err
		}
		results = result
		r.Leave()
	}
	return nil
}

// responsesItem reads one item. Items that the model made one after the other
// are one message; so are results that stand one after the other.
func (r *Reader) responsesItem(kind string, item Value, results bool) error {
	switch kind {
	case "message":
		return r.responsesMessage(item)
	case "additional_tools":
		r.DropOthers(item, "type", "id", "role", "tools", "status")
		return r.responsesTools(item.Member("tools"), "")
	case "reasoning":
		r.DropOthers(item, "type", "id", "summary", "content", "encrypted_content", "status")
		r.Join(Assistant, r.responsesReasoning(item))
	case "function_call", "custom_tool_call":
		r.DropOthers(item, "type", "id", "call_id", "namespace", "name", "arguments", "input", "status")
		p := Part{Kind: CallPart, Tool: responsesName(item, kind)}
		p.ID, p.Signature = UnsealID(item.Member("call_id").Str())
		if p.Tool.Name == "" {
			return r.Malformed("name")
		}
		if p.Tool.Custom {
			p.Text = item.Member("input").Text()
		} else {
			p.Input = CallInput(item.Member("arguments"))
		}
		r.Join(Assistant, p)
	case "function_call_output", "custom_tool_call_output":
		r.DropOthers(item, "type", "id", "call_id", "output", "status")
		p := Part{Kind: ResultPart}
		p.ID, _ = UnsealID(item.Member("call_id").Str())
		var err error
		if p.Content, err = r.responsesContent("output", item.Member("output")); err != nil {
			return err
		}
		if results {
			r.Join(User, p)
		} else {
			r.Message(User, []Part{p})
		}
	case "item_reference":
		return r.Refuse("type", NotStored)
	case "compaction", "compaction_summary", "compaction_trigger", "context_compaction":
		return r.Refuse("type", "a compaction is not understood by another provider")
	case "local_shell_call", "shell_call", "apply_patch_call", "computer_call":
		return r.Refuse("type", "a tool that the provider defines has no counterpart at this upstream")
	default:
		if strings.HasSuffix(kind, "_output") {
			return r.Refuse("type", "a tool that the provider defines has no counterpart at this upstream")
		}
		r.Drop("type")
	}
	return nil
}

func (r *Reader) responsesMessage(item Value) error {
	r.DropOthers(item, "type", "id", "role", "content", "status")
	parts, err := r.responsesContent("content", item.Member("content"))
	if err != nil {
		return err
	}
	switch item.Member("role").Str() {
	case "system", "developer":
		if len(r.Request.Messages) == 0 {
			r.Request.System = append(r.Request.System, parts...)
		} else {
			r.Message(System, parts)
		}
	case "user":
		r.Message(User, parts)
	case "assistant":
		if len(parts) > 0 {
			r.Join(Assistant, parts...)
		}
	default:
		return r.Malformed("role")
	}
	return nil
}

// responsesReasoning reads a reasoning item: its text is the summary, or the
// reasoning itself where the provider gives it out.
func (r *Reader) responsesReasoning(item Value) Part {
	var t Text
	for _, list := range []string{"summary", "content"} {
		for _, s := range r.Elements(item.Member(list)) {
			if piece := s.Member("text").Text(); !piece.Empty() {
				if !t.Empty() {
					t = append(t[:len(t):len(t)], `\n\n`...)
				}
				t = append(t[:len(t):len(t)], piece...)
			}
		}
		if !t.Empty() {
			break
		}
	}
	return r.Thinking(t, item.Member("encrypted_content").Str())
}

func (r *Reader) responsesContent(field string, v Value) ([]Part, error) {
	if v.IsString() {
		return []Part{{Text: v.Text()}}, nil
	}
	if !v.IsArray() {
		if v.Absent() {
			return nil, nil
		}
		return nil, r.Malformed(field)
	}
	var parts []Part
	for i, c := range r.Elements(v) {
		r.Enter(field, i)
		var p Part
		var err error
		r.DropOthers(c, "type", "text", "refusal", "annotations", "logprobs", "image_url", "detail", "filename", "file_url", "file_data", "file_id", "prompt_cache_breakpoint")
		if c.Member("prompt_cache_breakpoint").IsObject() {
			p.Cache = Value(`{"type":"ephemeral"}`)
		}
		switch c.Member("type").Str() {
		case "input_text", "output_text", "text", "summary_text":
			p.Text = c.Member("text").Text()
		case "refusal":
			p.Text = c.Member("refusal").Text()
		case "input_image":
			p.Media = &Media{Detail: Used(c.Member("detail"))}
			err = r.Media(&p, c.Member("image_url"), "image/*", "image_url")
		case "input_file":
			p.Media = &Media{Name: c.Member("filename").Text()}
			if url := c.Member("file_url"); url.IsString() {
				err = r.Media(&p, url, "application/pdf", "file_url")
			} else {
				err = r.Media(&p, c.Member("file_data"), "application/pdf", "file_data")
			}
		default:
			err = r.Refuse("type", "unknown kind of content")
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
		r.Leave()
	}
	return parts, nil
}
