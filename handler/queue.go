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
	"strconv"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/queue"
	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

const (
	defaultSlots    = 1
	defaultWaiting  = 64
	defaultPatience = 10 * time.Minute
	mostSlots       = 1024
	mostWaiting     = 100_000
)

// Queue bounds how many requests a box works on at a time, for a box that runs
// a model has few slots, each with one prefix in its cache. People take turns,
// whatever number of agents each of them has; conversations go before side
// requests, such as those for a title, as long as none of these waits for over
// 30 seconds; and a conversation gets the slot that holds its prefix if that is
// free.
//
// Requests that wait are answered with `X-Llm-Cache-Queue-Position`, the number
// of those in front of them when they came, `X-Llm-Cache-Queue-Expected-Ms`, how
// long they were expected to wait then, and `X-Llm-Cache-Queue-Wait-Ms`.
// A stream that signs of life have opened while the request waited has the first
// two: its headers were out before the wait was over.
// Where no more may wait, the answer is 429 with `Retry-After`: for whoever has most
// requests waiting, if somebody comes who has fewer. A client that leaves gives its
// place up at once.
type Queue struct {
	// Name tells queues apart: sites that name the same queue share it.
	// Default: one for each preset.
	Name string `json:"name,omitempty"`
	// Slots is how many requests run at a time, in all boxes behind the site.
	// 1 to 1024. Default: 1.
	Slots int `json:"slots,omitempty"`
	// Waiting is how many more may wait. 0 to 100,000. Default: 64.
	Waiting *int `json:"waiting,omitempty"`
	// Patience is how long a request may wait before it is answered by 429.
	// Default: 10m.
	Patience caddy.Duration `json:"patience,omitempty"`
}

// Validate reports the first bound out of its range.
func (q *Queue) Validate() error {
	if q == nil {
		return nil
	}
	if q.Slots < 0 || q.Slots > mostSlots {
		return fmt.Errorf("slots: %d is not between 1 and %d", q.Slots, mostSlots)
	}
	if q.Waiting != nil && (*q.Waiting < 0 || *q.Waiting > mostWaiting) {
		return fmt.Errorf("waiting: %d is not between 0 and %d", *q.Waiting, mostWaiting)
	}
	if q.Patience < 0 {
		return fmt.Errorf("patience: %s is below zero", time.Duration(q.Patience))
	}
	return nil
}

// limits returns the bounds, with those of the preset where none are given.
func (q *Queue) limits(p preset) queue.Limits {
	l := queue.Limits{Slots: q.Slots, Waiting: defaultWaiting, Patience: time.Duration(q.Patience)}
	if l.Slots == 0 {
		l.Slots = max(p.slots, defaultSlots)
	}
	if q.Waiting != nil {
		l.Waiting = *q.Waiting
	}
	if l.Patience == 0 {
		l.Patience = defaultPatience
	}
	return l
}

// gate lets a request through to next when the queue says so.
type gate struct {
	h      *Handler
	next   caddyhttp.Handler
	format wire.Format // of the client
	ticket queue.Ticket
	place  *atomic.Pointer[place] // told to whoever opens the stream early
}

// place is where a request stood in line when it came.
type place struct {
	ahead    int
	expected time.Duration
}

func (p *place) stamp(h http.Header) {
	h.Set("X-Llm-Cache-Queue-Position", strconv.Itoa(p.ahead))
	h.Set("X-Llm-Cache-Queue-Expected-Ms", strconv.FormatInt(p.expected.Milliseconds(), 10))
}

// queueing puts the queue before next, if there is one.
func (h *Handler) queueing(next caddyhttp.Handler, format wire.Format, t queue.Ticket, at *atomic.Pointer[place]) caddyhttp.Handler {
	if h.Queue == nil {
		return next
	}
	return &gate{h: h, next: next, format: format, ticket: t, place: at}
}

// ticket is a request's claim to a slot.
func (c *call) ticket(r *http.Request) queue.Ticket {
	if c.h.Queue == nil {
		return queue.Ticket{}
	}
	first := c.view.First()
	return queue.Ticket{
		Person:  c.h.state.person(r),
		Lineage: c.id + first.String(),
		Side:    !c.ex.OffersTools() || isSide(r.Header),
	}
}

// sideTicket is the claim of a request that is no part of a conversation, as
// far as we know.
func (h *Handler) sideTicket(r *http.Request) queue.Ticket {
	if h.Queue == nil {
		return queue.Ticket{}
	}
	return queue.Ticket{Person: h.state.person(r), Side: true}
}

// isSide tells a side request by the hints that Claude Code gives to gateways.
func isSide(h http.Header) bool {
	return first(h, "X-Claude-Code-Request-Class") == "auxiliary"
}

// person is whom a request is counted for: the user that Caddy has
// authenticated, else the credential.
func (s *state) person(r *http.Request) string {
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		if user, ok := repl.GetString("http.auth.user.id"); ok && user != "" {
			return "user " + user
		}
	}
	t := s.tenant(r)
	return string(t[:])
}

// ServeHTTP implements caddyhttp.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	q := g.h.slots()
	turn, err := q.Enter(g.ticket)
	h := w.Header()
	at := &place{turn.Ahead, turn.Expected}
	at.stamp(h)
	g.place.Store(at)
	queueMetrics.expected.Set(q.Expected().Seconds())
	if err != nil {
		queueMetrics.refused.WithLabelValues("full").Inc()
		return g.refuse(w, max(turn.Expected, q.RetryAfter()), fmt.Sprintf("the model is busy: %d requests wait already", turn.Ahead))
	}
	queueMetrics.waiting.Inc()
	err = turn.Wait(r.Context())
	queueMetrics.waiting.Dec()
	waited := turn.Waited()
	queueMetrics.wait.Observe(waited.Seconds())
	switch {
	case errors.Is(err, queue.ErrFull):
		queueMetrics.refused.WithLabelValues("share").Inc()
		return g.refuse(w, q.RetryAfter(), "the model is busy: others with fewer requests wait, too")
	case errors.Is(err, queue.ErrPatience):
		queueMetrics.refused.WithLabelValues("patience").Inc()
		return g.refuse(w, q.RetryAfter(), "the model is busy: no slot came free within "+waited.Round(time.Second).String())
	case err != nil:
		return caddyhttp.Error(statusClientClosed, fmt.Errorf("waiting for a slot: %w", err))
	}
	defer func() {
		turn.Leave()
		queueMetrics.expected.Set(q.Expected().Seconds())
	}()
	queueMetrics.running.Inc()
	defer queueMetrics.running.Dec()
	h.Set("X-Llm-Cache-Queue-Wait-Ms", strconv.FormatInt(waited.Milliseconds(), 10))
	if t, ok := w.(interface{ waited(time.Duration) }); ok {
		t.waited(waited)
	}
	caddyhttp.SetVar(r.Context(), "llm_slot", turn.Slot)
	return g.next.ServeHTTP(w, r)
}

// statusClientClosed is what Caddy logs for a client that left.
const statusClientClosed = 499

// refuse answers 429 as the client's own API would.
func (g *gate) refuse(w http.ResponseWriter, after time.Duration, message string) error {
	h := w.Header()
	// Clients give up on waits of over a minute.
	h["Retry-After"] = []string{strconv.Itoa(int(min(max(after, time.Second), time.Minute).Seconds()))}
	if g.format == "" {
		return caddyhttp.Error(http.StatusTooManyRequests, errors.New(message))
	}
	f := &translate.Failure{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Message: message}
	status, body := f.Write(g.format)
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// queueName is the name by which sites share a queue.
func (h *Handler) queueName() string {
	if h.Queue.Name == "" && h.Upstream != nil {
		return "upstream " + h.Upstream.Preset
	}
	return h.Queue.Name
}

// openQueue finds the site's queue. It outlives configurations: the limits are
// those of the one that served a request last.
func (h *Handler) openQueue() *queue.Queue {
	name := h.queueName()
	limits := h.Queue.limits(h.Upstream.preset())
	v, _ := h.state.queues.LoadOrStore(name, queue.New(limits))
	q := v.(*queue.Queue)
	q.SetLimits(limits)
	return q
}
