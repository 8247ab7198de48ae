// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/subscription"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Admin serves the sessions on Caddy's admin API:
//
//	GET    /llm_cache/sessions        a page of sessions, the newest first
//	GET    /llm_cache/sessions/{id}   one
//	DELETE /llm_cache/sessions/{id}   forget one; its next request starts anew
//	GET    /llm_cache/                the live page, and its data: data, events, period, turns, csv
//	GET    /llm_cache/records         the file of the audit store
//
// Features have routes of their own beside these, such as /llm_cache/keepalive.
//
// A page has `limit` sessions, 100 by default and 1000 at most, in the order of their creation.
// `total` is the number of all sessions. `next` is absent on the last page; elsewhere `?after=`
// with its value returns the next page. Sessions that begin or end in between move none of the
// others. `?client=` selects the sessions of the id that a client gives its conversations
// (X-Claude-Code-Session-Id and the like).
//
// Deleting a session deletes its conversations, pings, folded texts and the credential for pings.
// The records of the audit store stay.
//
// Ids are hashes. Responses have counters, sizes, warmth and a summary of the edit ledger, never
// content, keys or credentials.
type Admin struct{ instance *shared.Instance }

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.llm_cache", New: func() caddy.Module { return new(Admin) }}
}

// Provision implements [caddy.Provisioner].
func (a *Admin) Provision(ctx caddy.Context) error {
	a.instance = shared.Of(ctx)
	return nil
}

// Routes implements caddy.AdminRouter.
func (a *Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "GET /llm_cache/sessions", Handler: caddy.AdminHandlerFunc(a.list)},
		{Pattern: "GET /llm_cache/sessions/{id}", Handler: caddy.AdminHandlerFunc(a.get)},
		{Pattern: "GET /llm_cache/records", Handler: caddy.AdminHandlerFunc(a.records)},
		{Pattern: "GET /llm_cache/", Handler: caddy.AdminHandlerFunc(a.showPage)},
		{Pattern: "DELETE /llm_cache/sessions/{id}", Handler: caddy.AdminHandlerFunc(a.remove)},
	}
}

func (a *Admin) showPage(w http.ResponseWriter, r *http.Request) error {
	Dashboard(a.instance).ServeHTTP(w, r)
	return nil
}

// Records names the audit store of a running Caddy.
type Records struct {
	// Module is the name of the store's module, such as sqlite, "" without a store.
	Module string `json:"module"`
	// Path is the file, "" for other stores: a connection string may have a password.
	Path string `json:"path,omitempty"`
}

func (a *Admin) records(w http.ResponseWriter, _ *http.Request) error {
	var of Records
	running := runningOf(a.instance)
	running.Lock()
	if len(running.apps) > 0 {
		if s := running.apps[0].audit; s != nil {
			if m, ok := s.(caddy.Module); ok {
				of.Module = m.CaddyModule().ID.Name()
			}
			if path := s.Identity(); filepath.IsAbs(path) {
				of.Path = path
			}
		}
	}
	running.Unlock()
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(of)
}

// report returns the operator's view of a session as JSON.
func (l *listed) report(now time.Time) ([]byte, error) {
	text, err := json.Marshal(struct {
		sessioncache.SessionSummary
		Windows []subscription.State `json:"windows,omitempty"`
	}{l.session.Report(now), l.windows(now)})
	for p := range state.Parts[state.Reporter](l.state) {
		name, report := p.ReportSession(l.session)
		if report == nil || err != nil {
			continue
		}
		var more []byte
		// Each feature adds a member to the summary's object.
		if more, err = json.Marshal(map[string]any{name: report}); err == nil {
			text = append(append(text[:len(text)-1], ','), more[1:]...)
		}
	}
	return text, err
}

// windows returns the usage windows of the session's user.
func (l *listed) windows(now time.Time) []subscription.State {
	t := turnsOf(l.state.Instance)
	user := t.today.Identity(l.session.ID()).User
	if user == "" {
		return nil
	}
	return slices.DeleteFunc(t.subscriptions.Current(now), func(s subscription.State) bool { return s.User != user })
}

const (
	defaultPage = 100
	maxPage     = 1000
)

func (a *Admin) list(w http.ResponseWriter, r *http.Request) error {
	limit, after, err := pageOf(r.URL.Query())
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
	}
	client := r.URL.Query().Get("client")
	total, page := 0, []listed(nil)
	for _, s := range state.Open(a.instance) {
		total += s.Stats().Sessions
		if client != "" {
			page = append(page, named(s, client, after, limit+1)...)
			continue
		}
		for _, session := range s.Page(after, limit+1) {
			page = append(page, listed{s, session})
		}
	}
	// Numbers rise across states, so the newest of all come first.
	slices.SortFunc(page, func(a, b listed) int { return cmp.Compare(b.session.Number(), a.session.Number()) })
	next := ""
	// One more than the limit was read, to know whether a next page exists.
	if len(page) > limit {
		page = page[:limit]
		next = `,"next":"` + strconv.FormatUint(page[limit-1].session.Number(), 10) + `"`
	}
	w.Header().Set("Content-Type", "application/json")
	return writePage(w, page, fmt.Sprintf(`"total":%d%s`, total, next))
}

type listed struct {
	state   *state.State
	session *sessioncache.Session
}

// named returns the newest sessions with a client's own id.
func named(s *state.State, client string, after uint64, limit int) (found []listed) {
	for {
		sessions := s.Page(after, maxPage)
		for _, session := range sessions {
			if after = session.Number(); session.IsNamed(client) {
				// An id names one session for each credential and upstream that it was used with.
				if found = append(found, listed{s, session}); len(found) == limit {
					return found
				}
			}
		}
		if len(sessions) < maxPage {
			return found
		}
	}
}

func pageOf(q url.Values) (limit int, after uint64, err error) {
	limit, after = defaultPage, sessioncache.Newest
	if v := q.Get("limit"); v != "" {
		if limit, err = strconv.Atoi(v); err != nil || limit < 1 || limit > maxPage {
			return 0, 0, fmt.Errorf("limit must be between 1 and %d, got %q", maxPage, v)
		}
	}
	if v := q.Get("after"); v != "" {
		if after, err = strconv.ParseUint(v, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("after: %q is not what a page gave as next", v)
		}
	}
	return limit, after, nil
}

func writePage(w io.Writer, page []listed, rest string) error {
	now := time.Now()
	sep := `{"sessions":[`
	// Only one report at a time is in memory.
	for _, l := range page {
		text, err := l.report(now)
		if err != nil {
			return err
		}
		if _, err := w.Write(append([]byte(sep), text...)); err != nil {
			return err
		}
		sep = ",\n"
	}
	if len(page) > 0 {
		sep = ""
	}
	_, err := io.WriteString(w, sep+"],"+rest+"}\n")
	return err
}

func (a *Admin) get(w http.ResponseWriter, r *http.Request) error {
	for _, s := range state.Open(a.instance) {
		if session := s.Find(r.PathValue("id")); session != nil {
			text, err := (&listed{s, session}).report(time.Now())
			if err != nil {
				return err
			}
			w.Header().Set("Content-Type", "application/json")
			_, err = w.Write(append(text, '\n'))
			return err
		}
	}
	return notFound()
}

func (a *Admin) remove(w http.ResponseWriter, r *http.Request) error {
	for _, s := range state.Open(a.instance) {
		if session := s.Delete(r.PathValue("id")); session != nil {
			s.Forget(session)
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
	}
	return notFound()
}

func notFound() error {
	return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("no such session")}
}
