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

package wire

import (
	"fmt"
)

// The names that top-level members of a Responses request have in [parser.run].
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
	namePrevious          = []byte("previous_response_id")
	nameConversation      = []byte("conversation")
	nameStore             = []byte("store")
)

// responsesName renames the top-level members of a Responses request.
func responsesName(key []byte) []byte {
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
	case "previous_response_id":
		return namePrevious
	case "conversation":
		return nameConversation
	case "store":
		return nameStore
	}
	return nil
}

// responsesParser reads requests of the Responses API.
type responsesParser struct{ *Parser }

// tool reads one entry of tools.
func (p responsesParser) tool(at int) int {
	b, end := p.toolItem(at, SectionTools, RoleNone, -1)
	if end > 0 {
		p.AddTool(b)
	}
	return end
}

// toolItem reads a definition of a tool, wherever it stands. A tool of the
// provider's own has its type for a name.
func (p responsesParser) toolItem(at int, section Section, role Role, message int32) (Block, int) {
	b := Block{Kind: KindToolDef, Section: section, Role: role, Message: message}
	var kind Span
	m := Walk(p.Body, at)
	p.Hasher.Begin(section, role, KindToolDef)
	for m.Next() {
		key := m.Key
		value := m.Skip()
		if m.Bad {
			break
		}
		switch string(key) {
		case "name":
			if !b.Name.Empty() {
				return b, p.Fail(ErrDuplicate)
			}
			b.Name = Unquoted(p.Body, value)
		case "type":
			kind = Unquoted(p.Body, value)
		case "defer_loading":
			if string(value.Of(p.Body)) == "true" {
				b.Flags |= FlagDeferred
			}
		}
		p.Hasher.Member(key, value.Of(p.Body))
	}
	if m.Bad {
		return b, p.Fail(fmt.Errorf("%w: a tool is not an object", ErrShape))
	}
	if b.Name.Empty() {
		b.Name = kind
	}
	b.Span = Span{int32(at), int32(m.End)}
	b.Hash = p.Hasher.Sum()
	return b, m.End
}
