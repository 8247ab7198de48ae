// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
)

// forgetAll deletes all sessions through the admin API.
func forgetAll(t *testing.T) {
	t.Helper()
	ids := sessions()
	if len(ids) == 0 {
		t.Error("there is no session")
	}
	admin := new(app.Admin)
	if err := admin.Provision(caddy.Context{Context: t.Context()}); err != nil {
		t.Fatal(err)
	}
	for _, route := range admin.Routes() {
		if route.Pattern != "DELETE /llm_cache/sessions/{id}" {
			continue
		}
		for _, id := range ids {
			r := httptest.NewRequest(http.MethodDelete, "/llm_cache/sessions/"+id, nil)
			r.SetPathValue("id", id)
			w := httptest.NewRecorder()
			if err := route.Handler.ServeHTTP(w, r); err != nil || w.Code != http.StatusNoContent {
				t.Errorf("status %d, %v", w.Code, err)
			}
		}
	}
}

// TestDeletedSessionIsNotPinged: the end of a session ends its pings, also for a request in flight.
func TestDeletedSessionIsNotPinged(t *testing.T) {
	for _, under := range []string{"idle", "in flight"} {
		k := newKept(t)
		k.load(keeping, "")
		k.ask(1)
		switch under {
		case "idle":
			k.ask(2)
			if settled().Schedule.Bytes == 0 {
				t.Fatal("nothing is held for pings: this shows nothing")
			}
			forgetAll(t)
		default:
			k.hook = func() { forgetAll(t) }
			k.ask(2)
			k.hook = nil
		}
		if s := settled().Schedule; s.Bytes+int64(s.Targets)+int64(s.Watched) != 0 {
			t.Errorf("%s: the schedule holds %+v", under, s)
		}
		advance(wait)
		k.wantPings(0, under)
		if left := sessions(); len(left) != 0 {
			t.Errorf("%s: sessions %v are back", under, left)
		}
	}
}

// TestRefusedCredential: the payloads of a session are dropped once the upstream refuses their
// credential.
func TestRefusedCredential(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		k := newKept(t)
		k.load(keeping, "")
		k.session = "s"
		k.ask(1)
		k.ask(2)
		if settled().Schedule.Targets != 1 {
			t.Fatal("nothing is to be pinged: this shows nothing")
		}
		k.mu.Lock()
		k.status = status
		k.mu.Unlock()
		k.ask(0) // another conversation of the session
		if s := settled().Schedule; s.Bytes != 0 || s.Targets != 0 {
			t.Errorf("%d: the schedule holds %+v", status, s)
		}
	}
}
