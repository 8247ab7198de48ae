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

// joins tells whether an item of a role belongs to the message before it.
func (p *parser) joins(r Role) bool {
	n := len(p.v.Messages)
	return n > 0 && (r == RoleAssistant || r == RoleTool) && p.v.Messages[n-1].Role == r
}

// recallItems recognises the items of the next message at b[at] and returns the
// index behind them, or 0.
func (p *parser) recallItems(at int) int {
	i := len(p.v.Messages)
	if p.known == nil || i >= len(p.known.messages) || p.joins(p.known.messages[i].Role) {
		return 0
	}
	p.seal()
	return p.recallMessage(i, at)
}

// seal hashes the bytes of the last message, if items have joined it.
func (p *parser) seal() {
	if !p.grown {
		return
	}
	n := len(p.v.Messages) - 1
	p.raw[n], p.grown = rawHash(p.v.Messages[n].Span.Of(p.b)), false
}

// enter begins a message with an item, or adds the item to the last one.
func (p *parser) enter(role Role, span Span) {
	if p.joins(role) {
		m := &p.v.Messages[len(p.v.Messages)-1]
		m.Span.End, m.Content.End, p.grown = span.End, span.End, true
		return
	}
	p.seal()
	p.v.Messages = append(p.v.Messages, Message{Span: span, Content: span, First: int32(len(p.blocks)), Role: role})
	p.raw = append(p.raw, rawHash(span.Of(p.b)))
}
