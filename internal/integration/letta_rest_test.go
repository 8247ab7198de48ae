// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// restServer does what a server of Letta does over its REST API (0.16), as far as agents,
// their memory blocks and messages go. It takes no member that the API does not have, no
// id that it has not given, and no second message while an agent is at work.
type restServer struct {
	*httptest.Server
	t  *testing.T
	mu sync.Mutex
	restState
	agents map[string]*restAgent
	calls  []string // what it was asked for, but the messages
	sent   []string // the bodies of messages
	next   int      // of ids
}

// restState are what tests change.
type restState struct {
	noBlocks bool   // it takes no memory blocks
	stop     string // why the next run stops, "" for its end
	busy     bool   // it says that agents are at work
	wait     chan struct{}
}

// restAgent is an agent as the server keeps it.
type restAgent struct {
	id, model, session string
	tags               []string
	blocks             map[string]string
	said               []string // what the model sees behind the system prompt
	works              bool
}

func newRESTServer(t *testing.T) *restServer {
	t.Helper()
	s := &restServer{t: t, agents: map[string]*restAgent{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// fields are the members of a body, and their types in JSON; "!" marks those it must have.
type fields map[string]string

var (
	blockFields = fields{
		"label": "!string", "value": "!string", "limit": "number", "description": "string",
		"read_only": "bool", "metadata": "object",
	}
	agentFields = fields{
		"name": "string", "model": "!string", "embedding": "string", "tags": "array",
		"metadata": "object", "memory_blocks": "array", "tools": "array", "initial_message_sequence": "array",
	}
	patchFields   = fields{"value": "string", "limit": "number", "metadata": "object"}
	resetFields   = fields{"add_default_initial_messages": "bool"}
	sendFields    = fields{"messages": "!array"}
	streamFields  = fields{"messages": "!array", "stream_tokens": "bool"}
	messageFields = fields{"role": "!string", "content": "!string or array"}
	partFields    = fields{"type": "!string", "text": "string", "source": "object"}
)

// check reports what is wrong with an object.
func (f fields) check(o gjson.Result) error {
	if !o.IsObject() {
		return fmt.Errorf("%s is no object", o.Raw)
	}
	var err error
	o.ForEach(func(k, v gjson.Result) bool {
		want, ok := f[k.Str]
		is := map[gjson.Type]string{
			gjson.String: "string", gjson.Number: "number", gjson.True: "bool",
			gjson.False: "bool",
		}[v.Type]
		switch {
		case v.IsObject():
			is = "object"
		case v.IsArray():
			is = "array"
		}
		if !ok || is == "" || !strings.Contains(want, is) {
			err = fmt.Errorf("%s: %s", k.Str, v.Raw)
		}
		return err == nil
	})
	for name, kind := range f {
		if strings.HasPrefix(kind, "!") && !o.Get(name).Exists() {
			err = fmt.Errorf("%s is missing", name)
		}
	}
	return err
}

var agentID = regexp.MustCompile(`^agent-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func (s *restServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	body := gjson.ParseBytes(raw)
	fail := func(status int, detail string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"detail": detail})
	}
	invalid := func(err error) bool {
		if err != nil {
			s.t.Errorf("%s %s: %v in %s", r.Method, r.URL, err, raw)
			fail(http.StatusUnprocessableEntity, err.Error())
		}
		return err != nil
	}
	if len(raw) > 0 && r.Header.Get("Content-Type") != "application/json" &&
		invalid(fmt.Errorf("content type %q", r.Header.Get("Content-Type"))) {
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v1/agents/")
	if !ok {
		if r.Method != http.MethodDelete { // of what the client takes for a stored answer
			s.t.Errorf("%s %s", r.Method, r.URL)
		}
		fail(http.StatusNotFound, "Not Found")
		return
	}
	id, what, _ := strings.Cut(rest, "/")
	if strings.HasPrefix(what, "messages") {
		s.sent = append(s.sent, string(raw))
	} else {
		s.calls = append(s.calls, strings.TrimSuffix(r.Method+" "+what, " "))
	}
	if id == "" {
		s.collection(w, r, body, fail, invalid)
		return
	}
	a := s.agents[id]
	switch {
	case !agentID.MatchString(id):
		invalid(fmt.Errorf("the id %q", id))
		return
	case a == nil:
		fail(http.StatusNotFound, "Agent not found")
		return
	}
	label, isBlock := strings.CutPrefix(what, "core-memory/blocks/")
	value, has := a.blocks[label]
	switch on := r.Method + " " + what; {
	case on == "GET ":
		s.reply(w, s.state(a))
	case on == "PATCH reset-messages":
		if invalid(resetFields.check(body)) {
			return
		}
		a.said = nil
		s.reply(w, s.state(a))
	case isBlock && (s.noBlocks || !has):
		fail(http.StatusNotFound, "Block not found")
	case isBlock && r.Method == http.MethodGet:
		s.reply(w, map[string]any{"id": "block-1", "label": label, "value": value})
	case isBlock && r.Method == http.MethodPatch:
		if invalid(patchFields.check(body)) || invalid(fits(body)) {
			return
		}
		if a.works {
			s.t.Error("a memory block was written amid a run")
		}
		a.blocks[label] = body.Get("value").Str
		s.reply(w, map[string]any{"id": "block-1", "label": label, "value": a.blocks[label]})
	case on == "POST messages" && !invalid(sendFields.check(body)), on == "POST messages/stream" &&
		!invalid(streamFields.check(body)):
		s.message(w, a, body, strings.HasSuffix(what, "stream"), fail, invalid)
	default:
		s.t.Errorf("%s %s", r.Method, r.URL)
		fail(http.StatusMethodNotAllowed, "Method Not Allowed")
	}
}

// fits reports a value that a block has no room for.
func fits(block gjson.Result) error {
	if n := utf8.RuneCountInString(block.Get("value").Str); n > int(block.Get("limit").Int()) {
		return fmt.Errorf("%d characters exceed the limit", n)
	}
	return nil
}

func (s *restServer) reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (s *restServer) state(a *restAgent) map[string]any {
	return map[string]any{"id": a.id, "name": "x", "metadata": map[string]any{"session": a.session}, "tags": []string{}}
}

// collection lists and makes agents.
func (s *restServer) collection(
	w http.ResponseWriter, r *http.Request, body gjson.Result, fail func(int, string), invalid func(error) bool,
) {
	switch r.Method {
	case http.MethodGet:
		q, err := url.ParseQuery(r.URL.RawQuery)
		if invalid(err) {
			return
		}
		list := []any{}
		for _, a := range s.agents {
			if slices.Contains(a.tags, q.Get("tags")) {
				list = append(list, s.state(a))
			}
		}
		s.reply(w, list)
	case http.MethodPost:
		if invalid(agentFields.check(body)) {
			return
		}
		if !strings.Contains(body.Get("model").Str, "/") {
			fail(http.StatusBadRequest, "the model is no handle")
			return
		}
		s.next++
		a := &restAgent{
			id: fmt.Sprintf("agent-%08x-0000-4000-8000-000000000000", s.next), model: body.Get("model").Str,
			session: body.Get("metadata.session").Str, blocks: map[string]string{},
		}
		for _, tag := range body.Get("tags").Array() {
			a.tags = append(a.tags, tag.Str)
		}
		if blocks := body.Get("memory_blocks"); blocks.Exists() && s.noBlocks {
			fail(http.StatusBadRequest, "memory blocks are not supported")
			return
		} else if blocks.Exists() {
			for _, b := range blocks.Array() {
				if invalid(blockFields.check(b)) || invalid(fits(b)) {
					return
				}
				a.blocks[b.Get("label").Str] = b.Get("value").Str
			}
		}
		s.agents[a.id] = a
		s.reply(w, s.state(a))
	default:
		fail(http.StatusMethodNotAllowed, "Method Not Allowed")
	}
}

// message has an agent answer: it thinks, calls a tool of its own, and speaks, word by
// word in a stream.
func (s *restServer) message(
	w http.ResponseWriter, a *restAgent, body gjson.Result, stream bool, fail func(int, string), invalid func(error) bool,
) {
	if a.works || s.busy {
		if !s.busy {
			s.t.Error("two messages at once")
		}
		w.Header().Set("Retry-After", "7")
		fail(http.StatusConflict, "CONVERSATION_BUSY: another request is being processed")
		return
	}
	m := body.Get("messages.0")
	if body.Get("messages.#").Int() != 1 || invalid(messageFields.check(m)) || m.Get("role").Str != "user" {
		invalid(fmt.Errorf("messages"))
		return
	}
	text := m.Get("content").Str
	for _, p := range m.Get("content").Array() {
		if p.IsObject() {
			if invalid(partFields.check(p)) {
				return
			}
			text += p.Get("text").Str + p.Get("source.url").Str + p.Get("source.data").Str
		}
	}
	if wait := s.wait; wait != nil {
		a.works = true
		s.mu.Unlock()
		<-wait
		s.mu.Lock()
		a.works = false
	}
	a.said = append(a.said, "user: "+text)
	all := strings.Join(a.said, "")
	n := strings.Count(all, "user: ") + strings.Count(all, "<user>")
	answer := fmt.Sprintf("answer %d", n)
	why := s.stop
	if s.stop = ""; why == "" {
		why = "end_turn"
		a.said = append(a.said, "assistant: "+answer)
	} else {
		answer = "half"
	}
	messages := []string{
		`{"message_type":"reasoning_message","id":"message-1","date":"2026-01-01T00:00:00+00:00","reasoning":"Hm."}`,
		`{"message_type":"tool_call_message","id":"message-2","date":"2026-01-01T00:00:00+00:00",` +
			`"tool_call":{"name":"web_search","arguments":"{}","tool_call_id":"c1"}}`,
		`{"message_type":"tool_return_message","id":"message-3","date":"2026-01-01T00:00:00+00:00","tool_return":"ok",` +
			`"status":"success","tool_call_id":"c1"}`,
	}
	end := fmt.Sprintf(`{"message_type":"stop_reason","stop_reason":%q}`, why)
	usage := `{"message_type":"usage_statistics","completion_tokens":2,"prompt_tokens":50,"total_tokens":52,` +
		`"step_count":2,"cached_input_tokens":30,"run_ids":["run-1"]}`
	if !stream {
		messages = append(messages,
			fmt.Sprintf(`{"message_type":"assistant_message","id":"message-4","date":"2026-01-01T00:00:00+00:00",`+
				`"content":[{"type":"text","text":%q}]}`, answer))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"messages":[%s],"stop_reason":%s,"usage":%s}`, strings.Join(messages, ","), end, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	messages = append(messages, `{"message_type":"ping","id":"message-0","date":"2026-01-01T00:00:00+00:00"}`)
	for word := range strings.SplitAfterSeq(answer, " ") {
		messages = append(messages,
			fmt.Sprintf(`{"message_type":"assistant_message","id":"message-4","otid":"o","date":"2026-01-01T00:00:00+00:00",`+
				`"content":%q}`, word))
	}
	for _, m := range append(messages, end, usage) {
		fmt.Fprintf(w, "data: %s\n\n", m)
	}
	if why == "llm_api_error" {
		io.WriteString(w,
			"event: error\ndata: {\"message_type\":\"error_message\",\"run_id\":\"run-1\",\"error_type\":\"llm_error\","+
				"\"message\":\"the model broke\"}\n\n")
	}
	io.WriteString(w, "data: [DONE]\n\n")
}

// set changes what tests change.
func (s *restServer) set(f func(*restState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.restState)
}

// forget has the server lose its agents.
func (s *restServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agents = map[string]*restAgent{}
}

// all are its agents, in the order in which they were made.
func (s *restServer) all() (all []restAgent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.agents {
		all = append(all, *a)
	}
	slices.SortFunc(all, func(a, b restAgent) int { return strings.Compare(a.id, b.id) })
	return all
}

// asked returns what it was asked for since the last time, but the messages, and how many
// messages it was sent.
func (s *restServer) asked() (calls string, messages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls, messages = strings.Join(s.calls, ", "), len(s.sent)
	s.calls, s.sent = nil, nil
	return calls, messages
}
