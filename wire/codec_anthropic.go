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
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// anthropicCodec is the Messages API: POST …/v1/messages.
type anthropicCodec struct{}

func (anthropicCodec) Traits() Traits {
	return Traits{
		Markers: true, BindsThinking: true, Threads: true, MessageList: true, Alternates: true, UsageFirst: true, ResultsFollow: true,
		Heartbeat: "event: ping\ndata: {\"type\":\"ping\"}\n\n", RequestID: "Request-Id",
	}
}

func (anthropicCodec) Match(path string) bool { return strings.HasSuffix(path, "/v1/messages") }

func (anthropicCodec) ForcesCall(choice gjson.Result) bool { return ForcesCall(choice) }

func (anthropicCodec) MatchCount(path string) bool {
	return strings.HasSuffix(path, "/v1/messages/count_tokens")
}

func (anthropicCodec) CountedRequest(body []byte) ([]byte, string) { return body, "" }

func (anthropicCodec) CountAnswer(tokens int) []byte {
	return append(strconv.AppendInt([]byte(`{"input_tokens":`), int64(tokens), 10), '}')
}

func (anthropicCodec) Prefill() []Member {
	return []Member{{Name: "max_tokens", Value: []byte("1")}, {Name: "thinking"}}
}

func (c anthropicCodec) Base([]byte) []Member {
	members := []Member{{Name: "messages", Value: []byte("[" + PrefillMessage + "]")}}
	return append(append(members, c.Prefill()...), Member{Name: "output_config"})
}

func (anthropicCodec) Name(key []byte) []byte { return key }

func (anthropicCodec) Member(*Parser, []byte, Span) {}

func (anthropicCodec) Messages(p *Parser, at int) int { return p.Messages(at, anthropicParser{p}) }

func (anthropicCodec) Tool(p *Parser, at int) int { return anthropicParser{p}.tool(at) }

func (anthropicCodec) System(p *Parser, value Span) {
	anthropicParser{p}.content(value, SectionSystem, RoleSystem)
}

func (anthropicCodec) Event(a *Answer, root gjson.Result, name string) bool {
	return anthropicAnswer{a}.event(root, name)
}

func (anthropicCodec) Silent(name []byte) bool {
	return string(name) == "content_block_stop" || string(name) == "ping"
}

func (anthropicCodec) Document(a *Answer, root gjson.Result) { anthropicAnswer{a}.message(root) }

func (anthropicCodec) Usage(a *Answer, u gjson.Result) { anthropicAnswer{a}.usage(u) }

func (anthropicCodec) Hides(*View) bool { return true }

func (anthropicCodec) Intercept(r *ClientMessage) Interception {
	return &anthropicInterception{ClientMessage: r}
}

func (anthropicCodec) Mark(v *View, b *Block, value []byte) ([]Cut, error) {
	return v.MarkBlock(b, value)
}

func (anthropicCodec) Markable(b *Block) bool { return Markable(b) }
