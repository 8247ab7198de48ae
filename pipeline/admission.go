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

package pipeline

import (
	"bytes"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

const stageAdmission = "admission"

// admit takes out of tool results what says nothing, and out of calls what they
// have replaced, when they are seen for the first time. What is done depends on
// the result, its call, and what stands in front of it, and on nothing that
// changes later: a process that has forgotten the conversation does the same
// again. What was forwarded before stays as it went out.
func (f *frame) admit() {
	o := &f.o.Admission
	if o.Mode == Disabled {
		return
	}
	short := f.beyondMinimum()
	for i := max(f.previous, f.held); i < len(f.blocks); i++ {
		b := &f.blocks[i]
		if b.Kind != wire.KindToolResult {
			continue
		}
		f.admitReplaced(i, short)
		if b.Body.Len() < minAdmission || f.states[i].Edit != nil {
			continue
		}
		value := f.admission(i)
		if i < short || b.Body.Len()-len(value) < minGain || len(value) == 0 {
			continue
		}
		f.enter(i, value)
	}
}

// enter puts what admission makes of a block into the ledger.
func (f *frame) enter(i int, value []byte) {
	if f.presumed(i) {
		f.states[i].Edit = &sessioncache.Edit{Stage: stageAdmission, Op: wire.OpReplace, Value: value}
		return
	}
	f.set(i, stageAdmission, wire.OpReplace, value)
}

// beyondMinimum returns the first block in front of which there is, cautiously
// estimated, as much as the upstream caches at all. What stands before it is not
// shortened: a prompt that fell below the minimum would not be cached, and cost
// more than before.
func (f *frame) beyondMinimum() int {
	const bytesPerToken = 4
	left := bytesPerToken * f.rules.MinTokens
	for i := range f.view.Blocks {
		if left <= 0 {
			return max(0, i-f.view.System)
		}
		left -= f.view.Blocks[i].Span.Len()
	}
	return len(f.blocks)
}

// presumed tells whether a block of a conversation that this process has not
// seen was probably forwarded with the same edit before, by a process that had
// the same options. In a run of tool calls its thinking may be bound to that.
func (f *frame) presumed(i int) bool { return f.previous == 0 && i < f.forwarded && f.loop }

// admission returns the new content of a tool result, nil if it stays.
func (f *frame) admission(i int) []byte {
	b, o := &f.blocks[i], &f.o.Admission
	from := f.originOf(i)
	if enabled(o.Rereads) && pointable(b) {
		if p := f.reread(i, f.text(i)); p != "" {
			return appendText(nil, p)
		}
	}
	body := f.view.Bytes(b.Body)
	if body[0] == '"' {
		text := f.text(i)
		wrapped := maybeWrapped(body)
		if wrapped {
			text = unquote(body)
		}
		t := o.admitted(text, from)
		if enabled(o.Overlaps) && pointable(b) && !wrapped {
			if less := f.overlap(i, t); less != "" {
				t = less
			}
		}
		if len(t) < len(text) {
			return appendText(nil, t)
		}
		return nil
	}
	if body[0] == '[' {
		return o.admitParts(body, from)
	}
	return nil
}

// originOf tells where a tool result comes from.
func (f *frame) originOf(i int) *origin {
	failed := f.blocks[i].Has(wire.FlagError)
	j := f.callOf(i)
	if j < 0 {
		return &origin{source: sourceOther, failed: failed}
	}
	call := &f.blocks[j]
	o := originOf(f.view.Text(call.Name), inputOf(f.view.Bytes(call.Body)), failed)
	return &o
}

// admitParts does the same for a content of several parts. All but the texts
// stays in the client's bytes. It returns nil if nothing changes.
func (o *Admission) admitParts(body []byte, from *origin) []byte {
	var out []byte
	copied := 0
	gjson.ParseBytes(body).ForEach(func(_, part gjson.Result) bool {
		v := part.Get("text")
		if !isTextPart(part) || v.Type != gjson.String {
			return true
		}
		text := v.String()
		t := o.admitted(text, from)
		if len(t) == len(text) {
			return true
		}
		if v.Index < copied || !bytes.HasPrefix(body[v.Index:], []byte(v.Raw)) {
			return true
		}
		out = appendText(append(out, body[copied:v.Index]...), t)
		copied = v.Index + len(v.Raw)
		return true
	})
	if copied == 0 {
		return nil
	}
	return append(out, body[copied:]...)
}

// appendText appends a text as a JSON string. Nothing is escaped that need not
// be, for the sake of the bytes that are sent and kept.
func appendText(out []byte, s string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	copied := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			if r, n := utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			out = append(append(out, s[copied:i]...), "\uFFFD"...)
			i++
			copied = i
			continue
		}
		out = append(out, s[copied:i]...)
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, '\\', 'n')
		case '\t':
			out = append(out, '\\', 't')
		case '\r':
			out = append(out, '\\', 'r')
		default:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		copied = i
	}
	return append(append(out, s[copied:]...), '"')
}
