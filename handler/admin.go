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

package handler

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/overlay"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Admin serves the sessions on Caddy's admin API:
//
//	GET    /llm_cache/sessions        all sessions, most recently used first
//	GET    /llm_cache/sessions/{id}   one
//	GET    /llm_cache/keepalive       what is kept alive, and what pings came to
//	DELETE /llm_cache/sessions/{id}   forget one; its next request starts anew
//
// Ids are hashes; answers hold counters, sizes, warmth and a summary of the
// ledger, never content, keys or credentials.
type Admin struct{}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.llm_cache", New: func() caddy.Module { return new(Admin) }}
}

// Routes implements caddy.AdminRouter.
func (a *Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "GET /llm_cache/sessions", Handler: caddy.AdminHandlerFunc(a.list)},
		{Pattern: "GET /llm_cache/sessions/{id}", Handler: caddy.AdminHandlerFunc(a.get)},
		{Pattern: "GET /llm_cache/keepalive", Handler: caddy.AdminHandlerFunc(a.keepalive)},
		{Pattern: "DELETE /llm_cache/sessions/{id}", Handler: caddy.AdminHandlerFunc(a.remove)},
	}
}

// sessionReport is what an operator may see of a session.
type sessionReport struct {
	sessioncache.SessionReport
	// Overlay is what is known of its prompts to a box, one entry for each
	// conversation that was overlaid, most recently used first.
	Overlay []overlay.Report `json:"overlay,omitempty"`
}

func (s *state) report(session *sessioncache.Session, now time.Time) sessionReport {
	return sessionReport{session.Report(now), s.overlays.Report(session.ID())}
}

func (*Admin) list(w http.ResponseWriter, _ *http.Request) error {
	now, sessions := time.Now(), []sessionReport{}
	for _, s := range openStores() {
		s.All(func(session *sessioncache.Session) bool {
			sessions = append(sessions, s.report(session, now))
			return true
		})
	}
	return answer(w, struct {
		Sessions []sessionReport `json:"sessions"`
	}{sessions})
}

func (*Admin) get(w http.ResponseWriter, r *http.Request) error {
	for _, s := range openStores() {
		if session := s.Find(r.PathValue("id")); session != nil {
			return answer(w, s.report(session, time.Now()))
		}
	}
	return notFound()
}

func (*Admin) keepalive(w http.ResponseWriter, _ *http.Request) error {
	stores := openStores()
	reports := make([]KeepAliveReport, 0, len(stores))
	for _, s := range stores {
		reports = append(reports, s.keeper.report())
	}
	return answer(w, struct {
		Stores []KeepAliveReport `json:"stores"`
	}{reports})
}

func (*Admin) remove(w http.ResponseWriter, r *http.Request) error {
	for _, s := range openStores() {
		if s.Delete(r.PathValue("id")) {
			s.overlays.Forget(r.PathValue("id"))
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
	}
	return notFound()
}

// openStores collects the open stores, so that no work is done under the
// pool's lock.
func openStores() (all []*state) {
	eachStore(func(s *state) bool {
		all = append(all, s)
		return true
	})
	return all
}

func notFound() error {
	return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("no such session")}
}

func answer(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(v)
}
