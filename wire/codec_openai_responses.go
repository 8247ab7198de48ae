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

// responsesCodec is the Responses API: POST …/responses.
type responsesCodec struct{}

func (responsesCodec) Traits() Traits {
	return Traits{
		Breakpoints: true, KeepsAnswers: true, FlatItems: true, TextType: "input_text",
		Heartbeat:       "event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"response\":{\"object\":\"response\",\"status\":\"in_progress\"}}\n\n",
		HeartbeatWithin: true, CompactPath: "/responses/compact",
	}
}

func (responsesCodec) Match(path string) bool { return strings.HasSuffix(path, "/responses") }

func (responsesCodec) ForcesCall(choice gjson.Result) bool { return ForcesCall(choice) }

func (responsesCodec) MatchCount(path string) bool {
	return strings.HasSuffix(path, "/responses/input_tokens")
}

func (responsesCodec) CountedRequest(body []byte) ([]byte, string) { return body, "" }

func (responsesCodec) CountAnswer(tokens int) []byte {
	return append(strconv.AppendInt([]byte(`{"object":"response.input_tokens","input_tokens":`), int64(tokens), 10), '}')
}

func (responsesCodec) Prefill() []Member {
	return []Member{{Name: "max_output_tokens", Value: []byte("16")}} // the least that the API takes
}

func (c responsesCodec) Base(body []byte) []Member {
	members := []Member{{Name: "input", Value: PrefillMessages(gjson.GetBytes(body, "input"))}}
	return append(append(members, c.Prefill()...), Member{Name: "previous_response_id"})
}

func (responsesCodec) Name(key []byte) []byte { return responsesName(key) }

func (responsesCodec) Member(*Parser, []byte, Span) {}

func (responsesCodec) Messages(p *Parser, at int) int { return p.Items(at, responsesParser{p}) }

func (responsesCodec) Tool(p *Parser, at int) int { return responsesParser{p}.tool(at) }

func (responsesCodec) System(p *Parser, value Span) {
	if p.Body[value.Start] != '"' { // they are a text
		p.Fail(ErrShape)
		return
	}
	p.Blocks = append(p.Blocks, p.Plain(value, SectionSystem, RoleSystem, -1))
}

func (responsesCodec) Event(a *Answer, root gjson.Result, name string) bool {
	return responsesAnswer{a}.event(root, name)
}

func (responsesCodec) Silent([]byte) bool { return false }

func (responsesCodec) Document(a *Answer, root gjson.Result) { responsesAnswer{a}.read(root) }

func (responsesCodec) Usage(a *Answer, u gjson.Result) { responsesAnswer{a}.usage(u) }

func (responsesCodec) Hides(v *View) bool {
	return !v.Partial && len(v.Messages) > 0 && v.Raw[v.Messages[0].Span.Start] == '{'
}

func (responsesCodec) Intercept(r *ClientMessage) Interception {
	return &responsesInterception{ClientMessage: r}
}

func (responsesCodec) Mark(v *View, b *Block, value []byte) ([]Cut, error) {
	return markPart(v, b, value)
}
