// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
)

// TestUpstreams: each server of the sites is shown once, with the result of its last request, and
// before any request as untried.
func TestUpstreams(t *testing.T) {
	var u Upstreams
	now := time.Now()
	first, second, third := new(Reach), new(Reach), new(Reach)
	for _, r := range []*Reach{first, second, third} {
		u.Add(r)
	}
	if all := u.health(now); len(all) != 1 || all[0].State != page.OK ||
		all[0].Note != "no request has been answered yet" {
		t.Errorf("%+v", all)
	}
	none := caddyhttp.Error(http.StatusBadGateway, errors.New("refused"))
	first.At("box:8080")
	second.At("api.example.com:443")
	third.At("box:8080")
	second.Note(true, nil)
	first.Note(true, nil)
	for range unreachedFor {
		third.Note(false, none)
	}
	third.missed.Add(1) // the clock may not have advanced
	all := u.health(time.Now())
	if len(all) != 2 || all[0].Of != "api.example.com:443" || all[0].State != page.OK || all[1].Of != "box:8080" ||
		all[1].State != page.Failing {
		t.Errorf("%+v", all)
	}
	if all := u.health(time.Now().Add(2 * unreachedTime)); all[1].State != page.Slow {
		t.Errorf("whether it is up again is not known: %+v", all)
	}
	u.Remove(third)
	if all := u.health(time.Now()); len(all) != 2 || all[1].State != page.OK {
		t.Errorf("%+v", all)
	}
}
