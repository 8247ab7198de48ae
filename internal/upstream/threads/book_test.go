// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package threads

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

func view(t *testing.T, f wire.Format, body string) *wire.View {
	t.Helper()
	v, err := wire.Parse(f, []byte(body), nil)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return v
}

// book is a Book with a clock of its own.
type book struct {
	*Book
	now time.Time
}

func newBook(memory int64) *book {
	b := &book{now: time.Unix(1e9, 0)}
	b.Book = NewBook(lru.NewPool[sessioncache.Tenant](memory), time.Hour, func() time.Time { return b.now })
	return b
}

// upTo returns a limit in bytes.
func upTo(most int64) func(int64) bool { return func(n int64) bool { return n <= most } }

func side(tenant byte, upstream string) retain.Side {
	return retain.Side{Tenant: sessioncache.Tenant{tenant}, Upstream: upstream}
}

const (
	threadReply = `{"role":"assistant","content":[{"type":"text","text":"B"}]}`
	itemReply   = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"B"}]}`
)

// TestWhole: a request that continues an answer is completed from the earlier messages, the answer,
// and the new messages. It is not completed if the provider's interpretation is uncertain.
func TestWhole(t *testing.T) {
	for name, c := range map[string]struct {
		f          wire.Format
		kept, more string
		want       string // "" for nothing
	}{
		"all repeated": {
			wire.Anthropic,
			`{"model":"m","system":"S","tools":[{"name":"T"}],"messages":[{"role":"user","content":"A"}],` +
				`"thread":{"type":"create"}}`,
			`{"model":"m","system":"S2","tools":[{"name":"T2"}],"messages":[{"role":"user","content":"C"}],` +
				`"thread":{"type":"continue","previous_message_id":"h"}}`,
			`{"model":"m","system":"S2","tools":[{"name":"T2"}],"messages":[{"role":"user","content":"A"},` + threadReply +
				`,{"role":"user","content":"C"}],"thread":{"type":"create"}}`,
		},
		"system and tools left out": {
			wire.Anthropic,
			`{"model":"m","system":"S","tools":[{"name":"T"}],"messages":[{"role":"user","content":"A"}],` +
				`"thread":{"type":"create"}}`,
			`{"model":"m","messages":[{"role":"user","content":"C"}],"thread":{"type":"continue","previous_message_id":"h"}}`,
			`{"model":"m","messages":[{"role":"user","content":"A"},` + threadReply +
				`,{"role":"user","content":"C"}],"thread":{"type":"create"},"system":"S","tools":[{"name":"T"}]}`,
		},
		"without the markers of then": {
			wire.Anthropic,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"A",` +
				`"cache_control":{"type":"ephemeral"}},{"cache_control":{"type":"ephemeral"},"type":"text","text":"A2"}]}],` +
				`"thread":{"type":"create"}}`,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"C",` +
				`"cache_control":{"type":"ephemeral"}}]}],"thread":{"type":"continue","previous_message_id":"h"}}`,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"A"},{"type":"text","text":"A2"}]},` +
				threadReply +
				`,{"role":"user","content":[{"type":"text","text":"C","cache_control":{"type":"ephemeral"}}]}],` +
				`"thread":{"type":"create"}}`,
		},
		"thinking switched on": {
			wire.Anthropic,
			`{"model":"m","messages":[{"role":"user","content":"A"}],"thread":{"type":"create"}}`,
			`{"model":"m","thinking":{"type":"adaptive"},"messages":[{"role":"user","content":"C"}],` +
				`"thread":{"type":"continue","previous_message_id":"h"}}`, "",
		},
		"thinking left out": {
			wire.Anthropic,
			`{"model":"m","thinking":{"type":"adaptive"},"messages":[{"role":"user","content":"A"}],"thread":{"type":"create"}}`,
			`{"model":"m","messages":[{"role":"user","content":"C"}],"thread":{"type":"continue","previous_message_id":"h"}}`,
			"",
		},
		"a paused turn": {
			wire.Anthropic,
			`{"model":"m","messages":[{"role":"user","content":"A"}],"thread":{"type":"create"}}`,
			`{"model":"m","messages":[],"thread":{"type":"continue","previous_message_id":"h"}}`, "",
		},
		"another answer": {
			wire.Anthropic,
			`{"model":"m","messages":[{"role":"user","content":"A"}],"thread":{"type":"create"}}`,
			`{"model":"m","messages":[{"role":"user","content":"C"}],"thread":{"type":"continue","previous_message_id":"g"}}`,
			"",
		},
		"items": {
			wire.OpenAIResponses,
			`{"model":"m","input":[{"role":"user","content":"A"}]}`,
			`{"model":"m","previous_response_id":"h","input":[{"role":"user","content":"C"}]}`,
			`{"model":"m","input":[{"role":"user","content":"A"},` + itemReply + `,{"role":"user","content":"C"}]}`,
		},
		"texts": {
			wire.OpenAIResponses,
			`{"model":"m","input":"A"}`,
			`{"model":"m","previous_response_id":"h","input":"C"}`,
			`{"model":"m","input":[{"role":"user","content":"A"},` + itemReply + `,{"role":"user","content":"C"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			reply := threadReply
			if c.f == wire.OpenAIResponses {
				reply = itemReply
			}
			b := newBook(1 << 20)
			b.Keep(side(1, "u"), "s", "h", "", view(t, c.f, c.kept), []byte(reply))
			if got := b.Whole(side(1, "u"), view(t, c.f, c.more), upTo(1<<20)); string(got) != c.want {
				t.Errorf("got\n%s, want\n%s", got, c.want)
			}
			if got := b.Whole(side(2, "u"), view(t, c.f, c.more), upTo(1<<20)); got != nil {
				t.Errorf("another tenant got %s", got)
			}
			if got := b.Whole(side(1, "v"), view(t, c.f, c.more), upTo(1<<20)); got != nil {
				t.Errorf("another upstream got %s", got)
			}
			if got := b.Whole(side(1, "u"), view(t, c.f, c.more), upTo(100)); got != nil {
				t.Errorf("what is larger than it may be is %s", got)
			}
		})
	}
}

// TestBook: an answer is kept until it cannot be continued, it expires, or its tenant has the most
// memory and another needs room.
func TestBook(t *testing.T) {
	begin := view(t, wire.Anthropic, `{"model":"m","messages":[{"role":"user","content":"`+strings.Repeat("A", 2000)+
		`"}],"thread":{"type":"create"}}`)
	more := func(id string) *wire.View {
		return view(t, wire.Anthropic,
			`{"model":"m","messages":[{"role":"user","content":"C"}],"thread":{"type":"continue","previous_message_id":"`+id+
				`"}}`)
	}
	for _, c := range []struct {
		name   string
		memory int64
		do     func(b *book)
		kept   string // of tenant 1, of "abcdefgh"
	}{
		{"one", 1 << 20, func(b *book) { b.Keep(side(1, "u"), "s", "a", "", begin, []byte(threadReply)) }, "a"},
		{"without an id", 1 << 20, func(b *book) { b.Keep(side(1, "u"), "s", "", "", begin, []byte(threadReply)) }, ""},
		{"without an answer", 1 << 20, func(b *book) { b.Keep(side(1, "u"), "s", "a", "", begin, nil) }, ""},
		{"dropped", 1 << 20, func(b *book) {
			b.Keep(side(1, "u"), "s", "a", "", begin, []byte(threadReply))
			b.Drop(side(2, "u"), "a")
			b.Keep(side(1, "u"), "s", "b", "", begin, []byte(threadReply))
			b.Drop(side(1, "u"), "b")
		}, "a"},
		{"gone on from twice", 1 << 20, func(b *book) {
			b.Keep(side(1, "u"), "s", "a", "", begin, []byte(threadReply))
			b.Keep(side(1, "u"), "s", "b", "a", begin, []byte(threadReply))
			b.Keep(side(1, "u"), "s", "c", "b", begin, []byte(threadReply))
		}, "bc"},
		{"forgotten", 1 << 20, func(b *book) {
			b.Keep(side(1, "u"), "s", "a", "", begin, []byte(threadReply))
			b.Keep(side(1, "u"), "s", "b", "", begin, []byte(threadReply))
			b.Keep(side(1, "u"), "s", "c", "", begin, []byte(threadReply))
			b.Forget(side(1, "u"), "a")
			b.Forget(side(2, "u"), "b")
			b.Forget(side(1, "v"), "b")
			b.Forget(side(1, "u"), "")
			b.Forget(side(1, "u"), "x")
		}, "bc"},
		{"forgotten with what went on from it", 1 << 20, func(b *book) {
			for _, kept := range []string{"a", "ba", "cb", "dc", "e"} { // a is no longer kept, but part of d
				b.Keep(side(1, "u"), "s", kept[:1], kept[1:], begin, []byte(threadReply))
			}
			b.Forget(side(1, "u"), "a")
		}, "e"},
		{"forgotten, not what it went on from", 1 << 20, func(b *book) {
			b.Keep(side(1, "u"), "s", "a", "", begin, []byte(threadReply))
			b.Keep(side(1, "u"), "s", "b", "a", begin, []byte(threadReply))
			b.Forget(side(1, "u"), "b")
		}, "a"},
		{"forgotten while the next was on its way", 1 << 20, func(b *book) {
			b.Keep(side(1, "u"), "s", "a", "", begin, []byte(threadReply))
			b.Forget(side(1, "u"), "a")
			b.Keep(side(1, "u"), "s", "b", "a", begin, []byte(threadReply))
			b.Keep(side(1, "u"), "s", "c", "x", begin, []byte(threadReply)) // x had no room
		}, "c"},
		{"forgotten while the one behind it was on its way", 1 << 20, func(b *book) {
			b.Keep(side(1, "u"), "s", "a", "", begin, []byte(threadReply))
			b.Keep(side(1, "u"), "s", "b", "a", begin, []byte(threadReply))
			b.Forget(side(1, "u"), "a")
			b.Keep(side(1, "u"), "s", "c", "b", begin, []byte(threadReply))
		}, ""},
		{"forgotten while it was on its way", 1 << 20, func(b *book) {
			b.Forget(side(1, "u"), "a")
			b.Forget(side(2, "u"), "b")
			b.Keep(side(1, "u"), "s", "a", "", begin, []byte(threadReply))
			b.Keep(side(1, "u"), "s", "b", "", begin, []byte(threadReply))
		}, "b"},
		{"unused for too long", 1 << 20, func(b *book) {
			b.Keep(side(1, "u"), "s", "a", "", begin, []byte(threadReply))
			b.Keep(side(1, "u"), "s", "b", "", begin, []byte(threadReply))
			b.now = b.now.Add(59 * time.Minute)
			b.Whole(side(1, "u"), more("b"), upTo(1<<20))
			b.now = b.now.Add(time.Minute)
		}, "b"},
		{"a session is forgotten", 1 << 20, func(b *book) {
			b.Keep(side(1, "u"), "s", "a", "", begin, []byte(threadReply))
			b.Keep(side(1, "u"), "another", "b", "", begin, []byte(threadReply))
			b.Keep(side(2, "u"), "s", "c", "", begin, []byte(threadReply))
			b.ForgetSession(sessioncache.Tenant{1}, "s")
		}, "b"},
		{"no room", 10_000, func(b *book) { // three have room
			b.Keep(side(1, "u"), "s", "a", "", begin, []byte(threadReply))
			for i := range 5 {
				b.Keep(side(2, "u"), "s", fmt.Sprint(i), "", begin, []byte(threadReply))
			}
			b.Keep(side(1, "u"), "s", "b", "", begin, []byte(threadReply))
		}, "ab"},
		{"no room for one's own", 10_000, func(b *book) {
			for _, id := range "abcde" {
				b.Keep(side(1, "u"), "s", string(id), "", begin, []byte(threadReply))
			}
		}, "cde"},
	} {
		b := newBook(c.memory)
		c.do(b)
		kept := ""
		for _, id := range "abcdefgh" {
			if b.Whole(side(1, "u"), more(string(id)), upTo(1<<20)) != nil {
				kept += string(id)
			}
		}
		if kept != c.kept {
			t.Errorf("%s: %q is kept, want %q", c.name, kept, c.kept)
		}
		if n := b.kept.Bytes(); n > c.memory {
			t.Errorf("%s: %d bytes of %d", c.name, n, c.memory)
		}
	}
}

// TestKeptNoLonger: an unused book keeps no prompts beyond their lifetime.
func TestKeptNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBook(lru.NewPool[sessioncache.Tenant](1<<20), time.Hour, time.Now)
		b.Keep(side(1, "u"), "s", "a", "", view(t, wire.Anthropic,
			`{"model":"m","messages":[{"role":"user","content":"A"}],"thread":{"type":"create"}}`), []byte(threadReply))
		time.Sleep(time.Hour)
		synctest.Wait()
		b.kept.Lock()
		defer b.kept.Unlock()
		if n := b.kept.Len(); n > 0 {
			t.Errorf("%d conversations are kept", n)
		}
	})
}

// TestEchoed: an answer rewritten by a client is the same answer, unless its meaning changes.
func TestEchoed(t *testing.T) {
	for name, c := range map[string]struct {
		f        wire.Format
		was, now string
		same     bool
	}{
		"order and escapes": {wire.Anthropic, `{"type":"text","text":"é"}`, `{"text":"\u00e9","type":"text"}`, true},
		"nothing said": {
			wire.Anthropic, `{"type":"text","text":"B","citations":null}`, `{"type":"text","text":"B"}`,
			true,
		},
		"an empty text": {
			wire.Anthropic, `{"type":"text","text":"B"},{"type":"text","text":" "}`,
			`{"type":"text","text":"B"}`, true,
		},
		"a marker": {
			wire.Anthropic, `{"type":"text","text":"B"}`,
			`{"type":"text","text":"B","cache_control":{"type":"ephemeral"}}`, true,
		},
		"large numbers": {
			wire.Anthropic, `{"type":"tool_use","id":"t","name":"T","input":{"n":9007199254740993}}`,
			`{"type":"tool_use","id":"t","name":"T","input":{"n":9007199254740992}}`, false,
		},
		"another text": {wire.Anthropic, `{"type":"text","text":"B"}`, `{"type":"text","text":"B."}`, false},
		"another signature": {
			wire.Anthropic, `{"type":"thinking","thinking":"t","signature":"s"}`,
			`{"type":"thinking","thinking":"t","signature":"r"}`, false,
		},
		"without thinking": {
			wire.Anthropic, `{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"B"}`,
			`{"type":"text","text":"B"}`, false,
		},
		"a message's id": {
			wire.OpenAIResponses,
			`{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text",` +
				`"text":"é","annotations":[]}]}`,
			`{"role":"assistant","type":"message","content":[{"text":"\u00e9","type":"output_text"}]}`, true,
		},
		"a message's text": {
			wire.OpenAIResponses,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"B"}]}`,
			`{"role":"assistant","content":"B"}`, true,
		},
		"another phase": {
			wire.OpenAIResponses,
			`{"type":"message","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"B"}]}`,
			`{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"B"}]}`, false,
		},
		"a call": {
			wire.OpenAIResponses,
			`{"id":"fc_1","type":"function_call","status":"completed","call_id":"c","name":"T","arguments":"{\"a\": 1}"}`,
			`{"type":"function_call","call_id":"c","name":"T","arguments":"{\"a\":1}"}`, true,
		},
		"another call": {
			wire.OpenAIResponses,
			`{"type":"function_call","call_id":"c","name":"T","arguments":"{\"a\":1}"}`,
			`{"type":"function_call","call_id":"c","name":"T","arguments":"{\"a\":2}"}`, false,
		},
		"a broken call": {
			wire.OpenAIResponses,
			`{"type":"function_call","call_id":"c","name":"T","arguments":"{\"a\":1}"}`,
			`{"type":"function_call","call_id":"c","name":"T","arguments":"{\"a\":1}x"}`, false,
		},
		"reasoning": {
			wire.OpenAIResponses,
			`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"t"}],"encrypted_content":"e"}`,
			`{"type":"reasoning","summary":[],"encrypted_content":"e"}`, true,
		},
		"other reasoning": {
			wire.OpenAIResponses, `{"type":"reasoning","summary":[],"encrypted_content":"e"}`,
			`{"type":"reasoning","summary":[],"encrypted_content":"f"}`, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			said := func(answer string) []wire.Hash {
				if c.f == wire.Anthropic {
					return history(view(t, c.f, `{"messages":[{"role":"user","content":"A"},{"role":"assistant","content":[`+answer+
						`]}]}`), true)
				}
				return history(view(t, c.f, `{"input":[{"role":"user","content":"A"},`+answer+`]}`), true)
			}
			was, now := said(c.was), said(c.now)
			if len(was) != 2 || len(now) != 2 || was[0] != now[0] || (was[1] == now[1]) != c.same {
				t.Errorf("%s and %s: the same is %v, want %v", c.was, c.now, !c.same, c.same)
			}
		})
	}
}

// TestDelta: a delta is the client's own if its content is the same, or else the new part of the
// whole request.
func TestDelta(t *testing.T) {
	long := strings.Repeat("A", 3000)
	for name, c := range map[string]struct {
		f    wire.Format
		body string
		own  string // the client's own delta, "" for a whole request
		held int    // number of messages
		want string // "" for none
	}{
		"what the client sent": {
			f: wire.Anthropic, held: 2,
			body: `{"model":"m","messages":[{"role":"user","content":"` + long + `"},` + threadReply +
				`,{"role":"user","content":"C"}],"thread":{"type":"create"}}`,
			own: `{"messages": [{"role":"user","content":"C"}], "model":"m", "thread":{"type":"continue",` +
				`"previous_message_id":"h"}}`,
			want: `{"messages": [{"role":"user","content":"C"}], "model":"m", "thread":{"type":"continue",` +
				`"previous_message_id":"h"}}`,
		},
		"edited": {
			f: wire.Anthropic, held: 2,
			body: `{"model":"m","messages":[{"role":"user","content":"` + long + `"},` + threadReply +
				`,{"role":"user","content":"C'"}],"thread":{"type":"create"}}`,
			own: `{"model":"m","messages":[{"role":"user","content":"C"}],"thread":{"type":"continue",` +
				`"previous_message_id":"h"}}`,
			want: `{"model":"m","messages":[{"role":"user","content":"C'"}],"thread":{"type":"continue",` +
				`"previous_message_id":"h"}}`,
		},
		"all of it": {
			f: wire.Anthropic, held: 2,
			body: `{"model":"m","system":"S","tools":[{"name":"T"}],"messages":[{"role":"user","content":"` + long + `"},` +
				threadReply + `,{"role":"user","content":"C"}]}`,
			want: `{"model":"m","messages":[{"role":"user","content":"C"}],"thread":{"type":"continue",` +
				`"previous_message_id":"h"}}`,
		},
		"a marker too far in front": {
			f: wire.Anthropic, held: 2,
			body: `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"` + long +
				`","cache_control":{"type":"ephemeral"}}]},` + threadReply + `,{"role":"user","content":"C"}]}`,
		},
		"nothing new": {
			f: wire.Anthropic, held: 3,
			body: `{"model":"m","messages":[{"role":"user","content":"` + long + `"},` + threadReply +
				`,{"role":"user","content":"C"}]}`,
		},
		"larger": {
			f: wire.OpenAIResponses, held: 1,
			body: `{"model":"m","input":[{"role":"user"},{"role":"user","content":"C"}]}`,
		},
		"items": {
			f: wire.OpenAIResponses, held: 2,
			body: `{"model":"m","input":[{"role":"user","content":"` + long + `"},` + itemReply +
				`,{"role":"user","content":"C'"}]}`,
			own:  `{"model":"m","previous_response_id":"h","input":"C"}`,
			want: `{"model":"m","previous_response_id":"h","input":[{"role":"user","content":"C'"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var own *retain.Own
			if c.own != "" {
				v := view(t, c.f, c.own)
				own = &retain.Own{Handle: v.Conversation.Continues, Body: v.Raw, Items: Items(v)}
			}
			r := Request(c.f, []byte(c.body), nil, own)
			if r == nil {
				t.Fatal("there is no request")
			}
			base := &retain.Base{Handle: "h", Request: retain.Request{History: r.History[:c.held]}}
			got, _ := NewDriver(c.f).Delta(base, r)
			if string(got) != c.want {
				t.Errorf("got\n%s, want\n%s", got, c.want)
			}
			if got, _ := NewDriver(c.f).Delta(nil, r); got != nil {
				t.Errorf("from nothing comes %s", got)
			}
		})
	}
}

// TestBound: a thread is bound to everything that the model reads besides the messages.
func TestBound(t *testing.T) {
	const body = `{"model":"m","max_tokens":1,"stream":true,"thinking":{"type":"adaptive"},"system":"S",` +
		`"tools":[{"name":"T"}],"messages":[{"role":"user","content":"A"}]}`
	was := Request(wire.Anthropic, []byte(body), nil, nil)
	for change, same := range map[string]bool{
		`"max_tokens":1|"max_tokens":2`: true, `"stream":true|"stream":false`: true, `"content":"A"|"content":"B"`: true,
		`"S"|[{"type":"text","text":"S"}]`: true,
		`"m"|"n"`:                          false, `adaptive|disabled`: false, `"S"|"S2"`: false, `"T"|"T2"`: false,
	} {
		from, to, _ := strings.Cut(change, "|")
		now := Request(wire.Anthropic, []byte(strings.Replace(body, from, to, 1)), nil, nil)
		if (was.Bound == now.Bound) != same {
			t.Errorf("%s: the same is %v, want %v", change, !same, same)
		}
	}
	if string(was.Plain) != body || gjson.GetBytes(was.Body, "thread.type").Str != "create" {
		t.Errorf("it goes as %s, or as %s", was.Body, was.Plain)
	}
	for _, none := range []string{
		`{"messages":[]}`, `[]`,
		`{"model":"m","messages":[{"role":"user","content":"A"}],"thread":{"type":"continue","previous_message_id":"h"}}`,
	} {
		if r := Request(wire.Anthropic, []byte(none), nil, nil); r != nil {
			t.Errorf("%s is held", none)
		}
	}
}

// TestRead: an error about a delta is a miss, an error about a thread is a refusal. Any other error
// is for the client.
func TestRead(t *testing.T) {
	for _, c := range []struct {
		f       wire.Format
		delta   bool
		status  int
		body    string
		missed  retain.Cause
		refused bool
	}{
		{wire.Anthropic, true, 404, `{"error":{"details":{"error_code":"thread_not_found"}}}`, "thread_not_found", false},
		{wire.Anthropic, true, 400, `{"error":{"message":"No."}}`, retain.Refused, false},
		{wire.Anthropic, true, 422, `no JSON`, retain.Refused, false},
		{wire.Anthropic, false, 400, `{"error":{"details":{"error_code":"thread_unsupported_request"}}}`, "", true},
		{wire.Anthropic, true, 429, `{}`, "", false},
		{wire.Anthropic, true, 200, ``, "", false},
		{
			wire.OpenAIResponses, true, 400, `{"error":{"code":"previous_response_not_found"}}`, "previous_response_not_found",
			false,
		},
		{wire.OpenAIResponses, true, 400, `{"error":{"details":{"error_code":"thread_not_found"}}}`, retain.Refused, false},
	} {
		v := NewDriver(c.f).Read(c.delta, c.status, http.Header{}, []byte(c.body))
		if v.Missed != c.missed || v.Refused != c.refused {
			t.Errorf("%d %s: missed %q, refused %v", c.status, c.body, v.Missed, v.Refused)
		}
	}
}

// TestHear: the observer of an answer returns its handle, and its form in the next request. It
// returns nothing for an answer that cannot be repeated, and for a failed or cut one.
func TestHear(t *testing.T) {
	const thread, items = `{"model":"m","messages":[{"role":"user","content":"A"}],"thread":{"type":"create"}}`,
		`{"model":"m","input":"A"}`
	for name, c := range map[string]struct {
		f      wire.Format
		body   string
		answer string
		handle string
		reply  string
	}{
		"a message": {
			wire.Anthropic, thread,
			`{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"B"}],"stop_reason":"end_turn"}`,
			"msg_1", threadReply,
		},
		"an item": {
			wire.OpenAIResponses, items,
			`{"id":"resp_1","object":"response","status":"completed","output":[` + itemReply + `]}`, "resp_1", itemReply,
		},
		"an item that is kept elsewhere": {
			wire.OpenAIResponses, items,
			`{"id":"resp_1","object":"response","status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[]},` +
				itemReply + `]}`, "", "",
		},
		"a failed one": {
			wire.OpenAIResponses, items,
			`{"id":"resp_1","object":"response","status":"failed","error":{"code":"x"},"output":[]}`, "", "",
		},
		"a cut one": {
			wire.Anthropic, thread,
			`{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text"`, "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := Request(c.f, []byte(c.body), nil, nil)
			ear := NewDriver(c.f).Hear(r, false)
			var v retain.Verdict
			for _, b := range []byte(c.answer) {
				if got := ear.Feed([]byte{b}); got.Handle != "" {
					v = got
				}
			}
			if v.Handle != c.handle || !bytes.Equal(v.Reply, []byte(c.reply)) || c.handle != "" && len(v.History) != 2 {
				t.Errorf("it is held as %q, with %d messages, the answer %s", v.Handle, len(v.History), v.Reply)
			}
		})
	}
}
