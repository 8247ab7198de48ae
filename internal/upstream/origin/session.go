// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/zeebo/xxh3"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/delta"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Clients may name a conversation themselves, by a member sessionId of the body. A request
// that has a system prompt or tools is whole, and begins the session or begins it anew.
// Any other says what has come since: the model's answer, and what follows it. Its
// other members are in force from then on.

const (
	sessionMember = "sessionId"
	// maxSession bounds the name of a session, in bytes.
	maxSession = 128
)

var fronts = []string{"system", "tools", "instructions", "systemInstruction", "system_instruction"}

// lists are the members in which the formats have the conversation.
var lists = map[wire.Format]string{
	wire.Anthropic: "messages", wire.OpenAIChat: "messages", wire.OpenAIResponses: "input", wire.Gemini: "contents",
}

// talk is the immutable state of a session.
type talk struct {
	body   []byte // the last request, whole
	before []byte // base of its news, nil for a whole request
	news   uint64 // hash of its news
}

func (h *Handler) serveSession(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	format, ok := wire.Detect(r.Method, r.URL.Path)
	list := lists[format]
	if !ok || list == "" || httpx.Coding(r.Header) != "" || r.ContentLength <= 0 || r.ContentLength > h.MaxBody {
		return next.ServeHTTP(w, r)
	}
	e := &edgeRequest{
		Handler: h, of: conversation{owner: owner{tenant: h.store.key.Of(r)}},
		share: budget.Of(h.instance).Open(),
	}
	defer e.share.Close()
	body, err := e.read(w, r)
	switch {
	case errors.Is(err, httpx.ErrNoRoom):
		return crowded(w, format)
	case err != nil:
		return err
	}
	id := gjson.GetBytes(body, sessionMember)
	if id.Type != gjson.String || id.Str == "" || len(id.Str) > maxSession {
		httpx.SetBody(r, body)
		return next.ServeHTTP(w, r)
	}
	e.of.name = place(r, format) + " " + id.Str
	before, whole := new(talk), isWhole(body, list)
	if !whole {
		if before = e.store.talk(e.of); before == nil {
			count(sessionLost)
			return httpx.Fail(w, format, &translate.Failure{
				Status:  http.StatusNotFound,
				Message: "session not found: send the whole conversation, system prompt and tools included",
			})
		}
	}
	if e.share.Grow(r.Context(), int64(cap(body)+2*(len(before.body)+len(body)))) != nil {
		return crowded(w, format)
	}
	var now *talk
	if whole {
		now = begin(body)
	} else {
		now = before.goOn(body, list)
	}
	switch {
	case now == nil:
		return httpx.Fail(w, format, &translate.Failure{
			Status:  http.StatusBadRequest,
			Message: list + ": a session's requests have a list of messages",
		})
	case int64(len(now.body)) > h.MaxBody:
		return httpx.Fail(w, format, &translate.Failure{
			Status:  http.StatusRequestEntityTooLarge,
			Message: fmt.Sprintf("the session has more than %d bytes: begin it anew with less", h.MaxBody),
		})
	}
	count(session)
	return e.answered(w, r, next, now)
}

// crowded refuses a request for lack of memory.
func crowded(w http.ResponseWriter, format wire.Format) error {
	// It cannot pass, because only the origin has its base.
	count(delta.NoRoom)
	return budget.Fail(w, format)
}

// place is the namespace of a session's name.
func place(r *http.Request, format wire.Format) string {
	// A client may use one name with several models, and with several APIs of one model.
	path := r.URL.Path
	if o, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && o.URL != nil {
		path = o.URL.Path
	}
	return string(format) + " " + strings.ToLower(r.Host) + wire.Base(path)
}

// isWhole reports whether a request begins a session.
func isWhole(body []byte, list string) bool {
	for _, r := range gjson.GetManyBytes(body, fronts...) {
		if r.Exists() {
			return true
		}
	}
	role := gjson.GetBytes(body, list+".0.role").Str
	return role == "system" || role == "developer"
}

func begin(body []byte) *talk {
	out, err := wire.Patch(body, wire.Member{Name: sessionMember})
	if err != nil {
		return nil
	}
	// A copy of the right size, since it lives for hours.
	return &talk{body: bytes.Clone(out)}
}

// goOn appends the news of a request, nil without a list of them.
func (t *talk) goOn(body []byte, list string) *talk {
	news := gjson.GetBytes(body, list)
	sum := xxh3.HashString(news.Raw)
	before := t.body
	// Equal news are a retry: the client did not get its answer in full.
	if t.before != nil && t.news == sum {
		before = t.before
	}
	said := gjson.GetBytes(before, list)
	// In the Responses format a text is short for one user message.
	if said.Type == gjson.String && list == "input" {
		said = gjson.Parse(`[{"role":"user","content":` + said.Raw + `}]`)
	}
	if !said.IsArray() || !news.IsArray() {
		return nil
	}
	all := []byte(strings.TrimSuffix(said.Raw, "]"))
	if more := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(news.Raw, "["), "]")); more != "" {
		if len(said.Array()) > 0 {
			all = append(all, ',')
		}
		all = append(all, more...)
	}
	members := []wire.Member{{Name: list, Value: append(all, ']')}}
	// The other members apply from now on.
	for m := rawjson.Walk(body, 0); m.Next(); {
		name := string(m.Key)
		if value := m.Skip(); name != list && name != sessionMember && !m.Bad {
			members = append(members, wire.Member{Name: name, Value: value.Of(body)})
		}
	}
	out, err := wire.Patch(before, members...)
	if err != nil {
		return nil
	}
	return &talk{body: slices.Clip(out), before: before, news: sum}
}

// answered forwards a request and updates the session.
func (e *edgeRequest) answered(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, now *talk) error {
	e.dress(r, now.body)
	rec := caddyhttp.NewResponseRecorder(w, nil, nil) // streams, and notes the status
	if err := next.ServeHTTP(rec, r); err != nil {
		return err
	}
	// Only a complete answer moves the session forward; a retry finds the earlier state.
	if rec.Status()/100 == 2 {
		e.store.goOn(e.of, now)
	}
	return nil
}
