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
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/page"
)

const (
	// unreachedFor is how many requests in a row must have had no answer before the upstream
	// is said to fail.
	unreachedFor = 3
	// unreachedTime is how long it is said so after the last of them: whoever sends no
	// more requests then would never learn that it is up again.
	unreachedTime = 30 * time.Second
)

// reach is what requests have found out about whether the upstream answers. The zero value
// has found out nothing.
type reach struct {
	row      atomic.Int64 // requests since the last answer
	answered atomic.Int64 // when, in Unix nanoseconds
	missed   atomic.Int64
}

// note takes account of a request that has ended. Any answer counts, an error as well; that
// the client has left says nothing.
func (h *reach) note(answered bool, err error) {
	now := time.Now().UnixNano()
	if answered {
		h.row.Store(0)
		h.answered.Store(now)
		return
	}
	if e, ok := errors.AsType[caddyhttp.HandlerError](err); ok && layer.Unreached[e.StatusCode] != "" {
		h.row.Add(1)
		h.missed.Store(now)
	}
}

// health says how the upstream is.
func (h *reach) health(now time.Time) page.Health {
	ago := func(at *atomic.Int64) time.Duration { return now.Sub(time.Unix(0, at.Load())).Round(time.Second) }
	row := h.row.Load()
	out := page.Health{Name: "Upstream", State: page.OK, Note: "no request has been answered yet"}
	if h.answered.Load() != 0 {
		out.Note = fmt.Sprintf("answered %s ago", ago(&h.answered))
	}
	if row == 0 {
		return out
	}
	out.State = page.Slow
	out.Note = fmt.Sprintf("the last %d requests had no answer; %s", row, out.Note)
	if row >= unreachedFor && ago(&h.missed) < unreachedTime {
		out.State = page.Failing
	}
	return out
}

// status is what load balancers go by.
func status(all []page.Health) (word string, code int) {
	word, code = "ok", http.StatusOK
	for _, h := range all {
		switch {
		case h.State == page.Failing && h.Name == "Upstream":
			return "failing", http.StatusServiceUnavailable
		case h.State == page.Slow, h.State == page.Failing:
			word = "degraded"
		}
	}
	return word, code
}
