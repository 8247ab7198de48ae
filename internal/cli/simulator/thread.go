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

// threadsBeta is the value in Anthropic-Beta that requests of a thread need.
const threadsBeta = "message-threads-2026-08-12"

// threadLife is the lifetime of a thread after its last request, mostThreads the maximum of threads.
const (
	threadLife = 5 * time.Minute
	maxThreads = 1024
)

// threads has the threads of the simulated provider, by credential and id of the last response.
type threads struct {
	mu   sync.Mutex
	kept map[[2]string]*thread
}

// thread is a conversation up to and including a response.
type thread struct {
	body     []byte // the whole request of the response
	reply    []byte // the response as a message
	at       time.Time
	inFlight bool
	done     bool // a later request has continued it
}

func threadFailure(status int, code, message string) *Failure {
	return &Failure{Status: status, Code: code, Message: message}
}

// unthreaded lists members that no request of a thread may have, besides those of [Handler.Unthreaded].
var unthreaded = []string{"fallbacks"}

// unsupported refuses a request of a thread that has such members.
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

// open completes a request that creates or continues a thread. The caller must call end with the id
// and the message of the response before sending it, and with nil after a failure. Without a thread
// open returns the body unchanged.
func (t *threads) open(
	r *http.Request, v *wire.View, at time.Time,
) (body []byte, end func(id string, reply []byte), _ *Failure) {
	if v.Conversation.Thread.Empty() {
		return v.Raw, func(string, []byte) {}, nil
	}
	if !strings.Contains(strings.Join(r.Header["Anthropic-Beta"], ","), threadsBeta) {
		return nil, nil, threadFailure(http.StatusBadRequest, "", "thread: Extra inputs are not permitted")
	}
	owner := credential(r)
	keep := func(body []byte) func(string, []byte) {
		return func(id string, reply []byte) {
			if reply != nil { // nil after a failure, or in the final call
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
	if t.kept == nil || len(t.kept) >= maxThreads {
		t.kept = make(map[[2]string]*thread) // best effort, as at the provider
	}
	t.kept[key] = th
}

func (t *threads) goOn(
	key [2]string, v *wire.View, at time.Time, keep func([]byte) func(string, []byte),
) (body []byte, end func(string, []byte), _ *Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	th := t.kept[key]
	switch {
	case th == nil || at.Sub(th.at) > threadLife:
		return nil, nil, threadFailure(http.StatusNotFound, "thread_not_found",
			"No thread state was found for the requested `previous_message_id`. Replay the full conversation with `thread: "+
				"{\"type\": \"create\"}` to start a new Thread.")
	case th.done:
		return nil, nil, threadFailure(http.StatusBadRequest, "thread_already_continued",
			"The thread has already been continued from the requested `previous_message_id`.")
	case th.inFlight:
		return nil, nil, threadFailure(http.StatusBadRequest, "thread_continue_in_flight",
			"Another request is continuing the thread.")
	}
	if other := differing(th.body, v.Raw); len(other) > 0 {
		return nil, nil, threadFailure(http.StatusBadRequest, "thread_fingerprint_mismatch",
			"The request differs from the thread in: "+strings.Join(other, ", "))
	}
	body, err := joined(th, v.Raw)
	if err != nil {
		return nil, nil, threadFailure(http.StatusBadRequest, "", "thread: "+err.Error())
	}
	th.inFlight = true
	next := keep(body)
	return body, func(id string, reply []byte) {
		t.mu.Lock()
		if th.inFlight = false; reply != nil { // each response can be continued once
			th.done, th.body, th.reply = true, nil, nil
		}
		t.mu.Unlock()
		next(id, reply)
	}, nil
}

// fingerprint lists the members that a continuing request must not change: members of the first
// request only, and members that each request may repeat.
var fingerprint = []string{"model", "system", "tools", "tool_choice", "thinking", "output_config", "context_management"}

// differing returns the members of a request that differ from those of the thread.
func differing(thread, body []byte) (names []string) {
	for _, name := range fingerprint {
		// Cache markers may move.
		if now := gjson.GetBytes(body, name); now.Exists() &&
			!bytes.Equal(unmarked(unattributed(now)), unmarked(unattributed(gjson.GetBytes(thread, name)))) {
			names = append(names, name)
		}
	}
	return names
}

// unattributed returns a JSON text without Claude Code's attribution entry.
func unattributed(value gjson.Result) []byte {
	raw := []byte(value.Raw)
	// The provider removes the entry if it comes first.
	if first := value.Get("0.text"); strings.HasPrefix(first.Str, wire.AttributionLine) &&
		!strings.Contains(first.Str, "\n") {
		_, rest, _ := bytes.Cut(raw, []byte(value.Get("0").Raw))
		return rest
	}
	return raw
}

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

func joined(th *thread, body []byte) ([]byte, error) {
	messages := between(
		// Each request sets its own markers.
		unmarked([]byte(gjson.GetBytes(th.body, "messages").Raw)), append(append([]byte{'['}, th.reply...), ']'),
		[]byte(gjson.GetBytes(body, "messages").Raw))
	members := []wire.Member{{Name: "thread"}, {Name: "messages", Value: messages}}
	for _, name := range fingerprint {
		if stored := gjson.GetBytes(th.body, name); stored.Exists() && !gjson.GetBytes(body, name).Exists() {
			members = append(members, wire.Member{Name: name, Value: []byte(stored.Raw)})
		}
	}
	return wire.Patch(body, members...)
}

func (a anthropic) reply(c *query) []byte {
	content := make([]any, 0, len(c.answer.Blocks))
	for i := range c.answer.Blocks {
		content = append(content, a.block(&c.answer.Blocks[i], false))
	}
	return encode(struct {
		Role    string `json:"role"`
		Content []any  `json:"content"`
	}{"assistant", content})
}
