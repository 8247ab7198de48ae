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

const notStored = "what the provider has stored cannot be read by another one"

func (r *reader) responses(body raw) error {
	q := r.q
	q.IncludeUsage = true
	var in, tools raw
	for key, v := range body.members() {
		var err error
		switch key {
		case "model":
			q.Model = v.string()
		case "stream":
			q.Stream = v.isTrue()
		case "instructions":
			if v.isString() {
				q.System = append([]Part{{Text: v.text()}}, q.System...)
			}
		case "input":
			in = v
		case "tools":
			tools = v
		case "tool_choice":
			err = r.responsesChoice(v)
		case "parallel_tool_calls":
			q.Choice.Single, q.Choice.Parallel = string(v) == "false", v.isTrue()
		case "reasoning":
			for name, m := range v.members() {
				switch name {
				case "effort":
					r.openAIEffort(m.string())
				case "summary", "generate_summary":
					q.Reasoning.Show = !m.absent()
				default:
					r.dropUsed("reasoning."+name, m)
				}
			}
		case "text":
			for name, m := range v.members() {
				if name == "format" {
					if err := r.openAIFormat("text.format", m, m); err != nil {
						return err
					}
				} else if !r.param("text."+name, m) {
					r.dropUsed("text."+name, m)
				}
			}
		case "include":
			for _, s := range r.elements(v) {
				switch s.string() {
				case "reasoning.encrypted_content":
				case "message.output_text.logprobs":
					err = r.refuse(key, "the upstream gives no log probabilities")
				default:
					r.drop(key)
				}
			}
		case "top_logprobs":
			if !v.absent() && string(v) != "0" {
				err = r.refuse(key, "the upstream gives no log probabilities")
			}
		case "previous_response_id", "conversation", "prompt":
			if !v.absent() {
				err = r.refuse(key, notStored)
			}
		case "context_management":
			err = r.contextManagement(key, v, v)
		case "background":
			if v.isTrue() {
				err = r.refuse(key, "the upstream cannot answer in the background")
			}
		default:
			if !r.param(key, v) {
				r.dropUsed(key, v)
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

func (r *reader) responsesChoice(v raw) error {
	if v.isString() {
		return r.openAIMode(v.string())
	}
	c := &r.q.Choice
	switch kind := v.member("type").string(); kind {
	case "function", "custom":
		c.Mode, c.Tools = "any", []ToolName{responsesName(v, kind)}
	case "allowed_tools":
		for _, t := range r.elements(v.member("tools")) {
			r.allow(responsesName(t, t.member("type").string()))
		}
		return r.openAIAllowed(v)
	default:
		if !v.absent() {
			return r.refuse("tool_choice", "the choice has no counterpart at this upstream")
		}
	}
	return nil
}

func responsesName(v raw, kind string) ToolName {
	return ToolName{
		Namespace: v.member("namespace").string(), Name: v.member("name").string(),
		Custom: strings.HasPrefix(kind, "custom"),
	}
}

func (r *reader) responsesTools(v raw, namespace string) error {
	for i, t := range r.elements(v) {
		r.enter("tools", i)
		kind := t.member("type").string()
		switch kind {
		case "function", "custom":
			r.dropOthers(t, "type", "name", "description", "parameters", "strict", "format")
			tool := Tool{
				ToolName:    ToolName{Namespace: namespace, Name: t.member("name").string(), Custom: kind == "custom"},
				Description: t.member("description").text(),
				Schema:      used(t.member("parameters")),
				Strict:      used(t.member("strict")),
				Format:      used(t.member("format")),
			}
			if tool.Name == "" {
				return r.malformed("name")
			}
			r.q.Tools = append(r.q.Tools, tool)
		case "namespace":
			if err := r.responsesTools(t.member("tools"), t.member("name").string()); err != nil {
				return err
			}
			r.dropOthers(t, "type", "name", "tools")
		default:
			r.drop("type")
			r.hosted = r.path("type")
		}
		r.leave()
	}
	return nil
}

func (r *reader) responsesInput(v raw) error {
	if v.isString() {
		r.message(User, []Part{{Text: v.text()}})
		return nil
	}
	if !v.isArray() {
		return r.malformed("input")
	}
	r.q.Messages = []Message{}
	results := false
	for i, item := range r.elements(v) {
		r.enter("input", i)
		kind := item.member("type").string()
		if kind == "" && item.member("role").isString() {
			kind = "message"
		}
		result := strings.HasSuffix(kind, "call_output")
		if err := r.responsesItem(kind, item, results); err != nil {
			return err
		}
		results = result
		r.leave()
	}
	return nil
}

// responsesItem reads one item. Items that the model made one after the other
// are one message; so are results that stand one after the other.
func (r *reader) responsesItem(kind string, item raw, results bool) error {
	switch kind {
	case "message":
		return r.responsesMessage(item)
	case "additional_tools":
		r.dropOthers(item, "type", "id", "role", "tools", "status")
		return r.responsesTools(item.member("tools"), "")
	case "reasoning":
		r.dropOthers(item, "type", "id", "summary", "content", "encrypted_content", "status")
		r.join(Assistant, r.responsesReasoning(item))
	case "function_call", "custom_tool_call":
		r.dropOthers(item, "type", "id", "call_id", "namespace", "name", "arguments", "input", "status")
		p := Part{Kind: CallPart, Tool: responsesName(item, kind)}
		p.ID, p.Signature = UnsealID(item.member("call_id").string())
		if p.Tool.Name == "" {
			return r.malformed("name")
		}
		if p.Tool.Custom {
			p.Text = item.member("input").text()
		} else {
			p.Input = input(item.member("arguments"))
		}
		r.join(Assistant, p)
	case "function_call_output", "custom_tool_call_output":
		r.dropOthers(item, "type", "id", "call_id", "output", "status")
		p := Part{Kind: ResultPart}
		p.ID, _ = UnsealID(item.member("call_id").string())
		var err error
		if p.Content, err = r.responsesContent("output", item.member("output")); err != nil {
			return err
		}
		if results {
			r.join(User, p)
		} else {
			r.message(User, []Part{p})
		}
	case "item_reference":
		return r.refuse("type", notStored)
	case "compaction", "compaction_summary", "compaction_trigger", "context_compaction":
		return r.refuse("type", "a compaction is not understood by another provider")
	case "local_shell_call", "shell_call", "apply_patch_call", "computer_call":
		return r.refuse("type", "a tool that the provider defines has no counterpart at this upstream")
	default:
		if strings.HasSuffix(kind, "_output") {
			return r.refuse("type", "a tool that the provider defines has no counterpart at this upstream")
		}
		r.drop("type")
	}
	return nil
}

func (r *reader) responsesMessage(item raw) error {
	r.dropOthers(item, "type", "id", "role", "content", "status")
	parts, err := r.responsesContent("content", item.member("content"))
	if err != nil {
		return err
	}
	switch item.member("role").string() {
	case "system", "developer":
		if len(r.q.Messages) == 0 {
			r.q.System = append(r.q.System, parts...)
		} else {
			r.message(System, parts)
		}
	case "user":
		r.message(User, parts)
	case "assistant":
		if len(parts) > 0 {
			r.join(Assistant, parts...)
		}
	default:
		return r.malformed("role")
	}
	return nil
}

// responsesReasoning reads a reasoning item: its text is the summary, or the
// reasoning itself where the provider gives it out.
func (r *reader) responsesReasoning(item raw) Part {
	var t text
	for _, list := range []string{"summary", "content"} {
		for _, s := range r.elements(item.member(list)) {
			if piece := s.member("text").text(); !piece.empty() {
				if !t.empty() {
					t = append(t[:len(t):len(t)], `\n\n`...)
				}
				t = append(t[:len(t):len(t)], piece...)
			}
		}
		if !t.empty() {
			break
		}
	}
	return r.thinking(t, item.member("encrypted_content").string())
}

func (r *reader) responsesContent(field string, v raw) ([]Part, error) {
	if v.isString() {
		return []Part{{Text: v.text()}}, nil
	}
	if !v.isArray() {
		if v.absent() {
			return nil, nil
		}
		return nil, r.malformed(field)
	}
	var parts []Part
	for i, c := range r.elements(v) {
		r.enter(field, i)
		var p Part
		var err error
		r.dropOthers(c, "type", "text", "refusal", "annotations", "logprobs", "image_url", "detail", "filename", "file_url", "file_data", "file_id", "prompt_cache_breakpoint")
		if c.member("prompt_cache_breakpoint").isObject() {
			p.Cache = raw(`{"type":"ephemeral"}`)
		}
		switch c.member("type").string() {
		case "input_text", "output_text", "text", "summary_text":
			p.Text = c.member("text").text()
		case "refusal":
			p.Text = c.member("refusal").text()
		case "input_image":
			p.Media = &Media{Detail: used(c.member("detail"))}
			err = r.openAIMedia(&p, c.member("image_url"), "image/*", "image_url")
		case "input_file":
			p.Media = &Media{Name: c.member("filename").text()}
			if url := c.member("file_url"); url.isString() {
				err = r.openAIMedia(&p, url, "application/pdf", "file_url")
			} else {
				err = r.openAIMedia(&p, c.member("file_data"), "application/pdf", "file_data")
			}
		default:
			err = r.refuse("type", "unknown kind of content")
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
		r.leave()
	}
	return parts, nil
}
