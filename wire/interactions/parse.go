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

package interactions

import (
	"fmt"
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/rawjson"
)

// The names that top-level members have in [wire.Parse].
var (
	nameMessages     = []byte("messages")
	nameSystem       = []byte("system")
	nameTools        = []byte("tools")
	nameModel        = []byte("model")
	nameStream       = []byte("stream")
	nameOutputConfig = []byte("output_config")
	namePrevious     = []byte("previous_response_id")
	nameStore        = []byte("store")
)

// likeName renames the top-level members.
func likeName(key []byte) []byte {
	switch string(key) {
	case "model":
		return nameModel
	case "input":
		return nameMessages
	case "system_instruction":
		return nameSystem
	case "tools":
		return nameTools
	case "stream":
		return nameStream
	case "response_format":
		return nameOutputConfig
	case "previous_interaction_id":
		return namePrevious
	case "store":
		return nameStore
	}
	return nil
}

// parser reads requests.
type parser struct{ *wire.Parser }

// member reads a member of the top level that has no like in the Messages API. An
// agent, its surroundings, an answer in the background and one that is to be resumed
// are the provider's: what the model will see is not all in the request.
func (p parser) member(key []byte, value rawjson.Span) {
	switch string(key) {
	case "generation_config":
		if p.Body[value.Start] == '{' {
			p.config(value)
		}
	case "cached_content", "agent", "agent_config", "environment", "continuation_token", "background", "webhook_config":
		v := string(value.Of(p.Body))
		p.View.Conversation.Partial = p.View.Conversation.Partial || v != "null" && v != "false"
	}
}

// config reads what of a generation_config means something here.
func (p parser) config(s rawjson.Span) {
	m := rawjson.Walk(p.Body, int(s.Start))
	for m.Next() {
		key := m.Key
		value := m.Skip()
		switch string(key) {
		case "max_output_tokens":
			if n, err := strconv.Atoi(string(value.Of(p.Body))); err == nil {
				p.View.Reply.MaxTokens = n
			}
		case "thinking_level":
			p.View.Reply.Thinking = value
		case "tool_choice":
			p.View.Reply.ToolChoice = value
		}
	}
}

// tool reads one entry of tools. A tool that the provider runs has its type for a name.
func (p parser) tool(at int) int {
	b := wire.Block{Kind: wire.KindToolDef, Section: wire.SectionTools, Message: -1}
	var kind rawjson.Span
	m := rawjson.Walk(p.Body, at)
	p.Hasher.Begin(b.Section, b.Role, b.Kind)
	for m.Next() {
		key := m.Key
		value := m.Skip()
		if m.Bad {
			break
		}
		switch string(key) {
		case "name":
			if !b.Name.Empty() {
				return p.Fail(wire.ErrDuplicate)
			}
			b.Name = rawjson.Unquoted(p.Body, value)
		case "type":
			kind = rawjson.Unquoted(p.Body, value)
		}
		p.Hasher.Member(key, value.Of(p.Body))
	}
	if m.Bad {
		return p.Fail(fmt.Errorf("%w: a tool is not an object", wire.ErrShape))
	}
	if b.Name.Empty() {
		b.Name = kind
	}
	b.Span = rawjson.Span{Start: int32(at), End: int32(m.End)}
	b.Hash = p.Hasher.Sum()
	p.AddTool(b)
	return m.End
}
