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
	"strings"

	"github.com/tidwall/gjson"
)

// chatCodec is the chat completions API: POST …/v1/chat/completions.
type chatCodec struct{}

func (chatCodec) Traits() Traits {
	return Traits{MessageList: true, SystemInMessages: true, EndsWithDone: true, ServersVary: true, ArgumentsText: true}
}

func (chatCodec) Match(path string) bool { return strings.HasSuffix(path, "/chat/completions") }

func (chatCodec) ForcesCall(choice gjson.Result) bool { return ForcesCall(choice) }

func (chatCodec) Prefill() []Member {
	return []Member{{Name: "max_tokens", Value: []byte("1")}, {Name: "max_completion_tokens"}}
}

func (c chatCodec) Base(body []byte) []Member {
	members := []Member{{Name: "messages", Value: PrefillMessages(gjson.GetBytes(body, "messages"))}}
	return append(append(members, c.Prefill()...), Member{Name: "response_format"})
}

func (chatCodec) Name(key []byte) []byte { return key }

func (chatCodec) Member(*Parser, []byte, Span) {}

func (chatCodec) Messages(p *Parser, at int) int { return p.Messages(at, chatParser{p}) }

func (chatCodec) Tool(p *Parser, at int) int { return chatParser{p}.tool(at) }

func (chatCodec) System(*Parser, Span) {} // it stands in the messages

func (chatCodec) Event(a *Answer, root gjson.Result, name string) bool {
	chatAnswer{a}.read(root, "delta", name)
	return false
}

func (chatCodec) Silent([]byte) bool { return false }

func (chatCodec) Document(a *Answer, root gjson.Result) { chatAnswer{a}.read(root, "message", "") }

func (chatCodec) Usage(a *Answer, u gjson.Result) { chatAnswer{a}.usage(u) }

func (chatCodec) Hides(*View) bool { return true }

func (chatCodec) Intercept(r *ClientMessage) Interception { return &chatInterception{ClientMessage: r} }

func (chatCodec) Mark(v *View, b *Block, value []byte) ([]Cut, error) { // some hosts take them
	return v.MarkBlock(b, value)
}

func (chatCodec) Markable(b *Block) bool { return Markable(b) }
