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

package openairesponses

import (
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/rawjson"
)

// The names that top-level members of a Responses request have in [wire.Parse].
var (
	nameMessages          = []byte("messages")
	nameSystem            = []byte("system")
	nameTools             = []byte("tools")
	nameToolChoice        = []byte("tool_choice")
	nameModel             = []byte("model")
	nameStream            = []byte("stream")
	nameMaxTokens         = []byte("max_tokens")
	nameThinking          = []byte("thinking")
	nameOutputConfig      = []byte("output_config")
	nameContextManagement = []byte("context_management")
	nameMetadata          = []byte("metadata")
	nameCacheKey          = []byte("prompt_cache_key")
	nameCacheRetention    = []byte("prompt_cache_retention")
	nameCacheOptions      = []byte("prompt_cache_options")
	namePrevious          = []byte("previous_response_id")
	nameConversation      = []byte("conversation")
	nameStore             = []byte("store")
)

// likeName renames the top-level members of a Responses request.
func likeName(key []byte) []byte {
	switch string(key) {
	case "model":
		return nameModel
	case "input":
		return nameMessages
	case "instructions":
		return nameSystem
	case "tools":
		return nameTools
	case "stream":
		return nameStream
	case "max_output_tokens":
		return nameMaxTokens
	case "tool_choice":
		return nameToolChoice
	case "reasoning":
		return nameThinking
	case "text":
		return nameOutputConfig
	case "context_management":
		return nameContextManagement
	case "metadata":
		return nameMetadata
	case "prompt_cache_key":
		return nameCacheKey
	case "prompt_cache_retention":
		return nameCacheRetention
	case "prompt_cache_options":
		return nameCacheOptions
	case "previous_response_id":
		return namePrevious
	case "conversation":
		return nameConversation
	case "store":
		return nameStore
	}
	return nil
}

// parser reads requests of the Responses API.
type parser struct{ *wire.Parser }

// tool reads one entry of tools.
func (p parser) tool(at int) int {
	b, end := p.toolItem(at, wire.SectionTools, wire.RoleNone, -1)
	if end > 0 {
		p.AddTool(b)
	}
	return end
}

// toolItem reads a definition of a tool, wherever it stands. A tool of the
// provider's own has its type for a name.
func (p parser) toolItem(at int, section wire.Section, role wire.Role, message int32) (wire.Block, int) {
	b := wire.Block{Kind: wire.KindToolDef, Section: section, Role: role, Message: message}
	var kind rawjson.Span
	m := rawjson.Walk(p.Body, at)
	p.Hasher.Begin(section, role, wire.KindToolDef)
	for m.Next() {
		key := m.Key
		value := m.Skip()
		if m.Bad {
			break
		}
		switch string(key) {
		case "name":
			if !b.Name.Empty() {
				return b, p.Fail(wire.ErrDuplicate)
			}
			b.Name = rawjson.Unquoted(p.Body, value)
		case "type":
			kind = rawjson.Unquoted(p.Body, value)
		case "defer_loading":
			if string(value.Of(p.Body)) == "true" {
				b.Flags |= wire.FlagDeferred
			}
		}
		p.Hasher.Member(key, value.Of(p.Body))
	}
	if m.Bad {
		return b, p.Fail(fmt.Errorf("%w: a tool is not an object", wire.ErrShape))
	}
	if b.Name.Empty() {
		b.Name = kind
	}
	b.Span = rawjson.Span{Start: int32(at), End: int32(m.End)}
	b.Hash = p.Hasher.Sum()
	return b, m.End
}
