// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// threadsBeta is what a request says in Anthropic-Beta if it has a thread.
const threadsBeta = "message-threads-2026-08-12"

// threadLife is how long a conversation is kept after its last request, and
// mostThreads how many are.
const (
	threadLife  = 5 * time.Minute
	mostThreads = 1024
)

// threads are the conversations that the simulated provider keeps, by credential
// and id of the last answer.
type threads struct {
	mu   sync.Mutex
	kept map[[2]string]*thread
}

// thread is a conversation up to and with an answer.
type thread struct {
	body     []byte // the whole request that the answer was given to
	reply    []byte // the answer as a message
	at       time.Time
	inFlight bool
	done     bool // another answer was given behind it
}

func threadFailure(status int, code, message string) *Failure {
	return &Failure{Status: status, Code: code, Message: message}
}

// unthreaded are members that no request of a thread may have, those besides that
// [Handler.Unthreaded] names.
var unthreaded = []string{"fallbacks"}

// unsupported refuses a request of a thread for the members that it has of those.
func (h *Handler) unsupported(v *wire.View) *Failure {
	if v.Conversation.Thread.Empty() {
		return nil
	}
	f := threadFailure(http.StatusBadRequest, "thread_unsupported_request", "")
	for _, name := range slices.Concat(unthreaded, h.Unthreaded) {
		if m := gjson.GetBytes(v.Raw, name); m.Exists() && m.Type != gjson.Null || name == "cache_control" && marked(v) {
			f.Unsupported = append(f.Unsupported, name)
		}
	}
	if f.Unsupported == nil {
		return nil
	}
	f.Message = "thread: not supported together with: " + strings.Join(f.Unsupported, ", ")
	return f
}

func marked(v *wire.View) bool {
	return slices.ContainsFunc(v.Blocks, func(b wire.Block) bool { return !b.Marker.Empty() })
}

// open makes a request whole that asks for a thread or goes on with one. The
// returned function is told the answer's id and the answer as a message before it is
// given out, and that there was none in the end. Without a thread in the request there is nothing to do.
func (t *threads) open(r *http.Request, v *wire.View, at time.Time) (body []byte, end func(id string, reply []byte), _ *Failure) {
	if v.Conversation.Thread.Empty() {
		return v.Raw, func(string, []byte) {}, nil
	}
	if !strings.Contains(strings.Join(r.Header["Anthropic-Beta"], ","), threadsBeta) {
		return nil, nil, threadFailure(http.StatusBadRequest, "", "thread: Extra inputs are not permitted")
	}
	owner := credential(r)
	keep := func(body []byte) func(string, []byte) {
		return func(id string, reply []byte) {
			if reply != nil { // else it failed, or was given out before
				t.keep([2]string{owner, id}, &thread{body: body, reply: reply, at: at})
			}
		}
	}
	switch kind := gjson.GetBytes(v.Bytes(v.Conversation.Thread), "type").Str; kind {
	case "create":
		body, err := wire.Patch(v.Raw, wire.Member{Name: "thread"})
		if err != nil {
			return nil, nil, threadFailure(http.StatusBadRequest, "", err.Error())
		}
		return body, keep(body), nil
	case "continue":
		return t.goOn([2]string{owner, v.Conversation.Continues}, v, at, keep)
	default:
		return nil, nil, threadFailure(http.StatusBadRequest, "", "thread.type: Input should be 'create' or 'continue'")
	}
}

func (t *threads) keep(key [2]string, th *thread) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil || len(t.kept) >= mostThreads {
		t.kept = make(map[[2]string]*thread) // best effort, as at the provider
	}
	t.kept[key] = th
}

// goOn puts what is kept in front of a request.
func (t *threads) goOn(key [2]string, v *wire.View, at time.Time, keep func([]byte) func(string, []byte)) (body []byte, end func(string, []byte), _ *Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	th := t.kept[key]
	switch {
	case th == nil || at.Sub(th.at) > threadLife:
		return nil, nil, threadFailure(http.StatusNotFound, "thread_not_found",
			"No thread state was found for the requested `previous_message_id`. Replay the full conversation with `thread: {\"type\": \"create\"}` to start a new Thread.")
	case th.done:
		return nil, nil, threadFailure(http.StatusBadRequest, "thread_already_continued", "The thread has already been continued from the requested `previous_message_id`.")
	case th.inFlight:
		return nil, nil, threadFailure(http.StatusBadRequest, "thread_continue_in_flight", "Another request is continuing the thread.")
	}
	if other := differing(th.body, v.Raw); len(other) > 0 {
		return nil, nil, threadFailure(http.StatusBadRequest, "thread_fingerprint_mismatch", "The request differs from the thread in: "+strings.Join(other, ", "))
	}
	body, err := joined(th, v.Raw)
	if err != nil {
		return nil, nil, threadFailure(http.StatusBadRequest, "", "thread: "+err.Error())
	}
	th.inFlight = true
	next := keep(body)
	return body, func(id string, reply []byte) {
		t.mu.Lock()
		if th.inFlight = false; reply != nil { // nothing goes on from there any more
			th.done, th.body, th.reply = true, nil, nil
		}
		t.mu.Unlock()
		next(id, reply)
	}, nil
}

// fingerprint are the members that a request which goes on must not change: those
// that only the first may give, and those that each may repeat.
var fingerprint = []string{"model", "system", "tools", "tool_choice", "thinking", "output_config", "context_management"}

// differing names the members of a request that are there and other than those of
// the thread, markers aside.
func differing(thread, body []byte) (names []string) {
	for _, name := range fingerprint {
		if now := gjson.GetBytes(body, name); now.Exists() && !bytes.Equal(unmarked(unattributed(now)), unmarked(unattributed(gjson.GetBytes(thread, name)))) {
			names = append(names, name)
		}
	}
	return names
}

// unattributed is a JSON text without the entry in which Claude Code tells of
// itself, which the provider takes out if it is the first.
func unattributed(value gjson.Result) []byte {
	raw := []byte(value.Raw)
	if first := value.Get("0.text"); strings.HasPrefix(first.Str, wire.AttributionLine) && !strings.Contains(first.Str, "\n") {
		_, rest, _ := bytes.Cut(raw, []byte(value.Get("0").Raw))
		return rest
	}
	return raw
}

// unmarked is a JSON text without markers of the cache.
func unmarked(value []byte) []byte {
	for {
		from := bytes.Index(value, []byte(`,"cache_control":{`))
		if from < 0 {
			return value
		}
		end := bytes.IndexByte(value[from:], '}')
		if end < 0 {
			return value
		}
		value = append(value[:from:from], value[from+end+1:]...)
	}
}

// joined is the whole of a request that goes on: what is kept without its markers,
// which each request sets anew, the answer, and what is new.
func joined(th *thread, body []byte) ([]byte, error) {
	messages := between(
		unmarked([]byte(gjson.GetBytes(th.body, "messages").Raw)), append(append([]byte{'['}, th.reply...), ']'), []byte(gjson.GetBytes(body, "messages").Raw))
	members := []wire.Member{{Name: "thread"}, {Name: "messages", Value: messages}}
	for _, name := range fingerprint {
		if held := gjson.GetBytes(th.body, name); held.Exists() && !gjson.GetBytes(body, name).Exists() {
			members = append(members, wire.Member{Name: name, Value: []byte(held.Raw)})
		}
	}
	return wire.Patch(body, members...)
}

// reply is an answer as a message of the next request.
func (a anthropic) reply(c *exchange) []byte {
	content := make([]any, 0, len(c.answer.Blocks))
	for i := range c.answer.Blocks {
		content = append(content, a.block(&c.answer.Blocks[i], false))
	}
	return encode(struct {
		Role    string `json:"role"`
		Content []any  `json:"content"`
	}{"assistant", content})
}
