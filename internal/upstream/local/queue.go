// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/queue"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

const (
	defaultSlots      = 1
	defaultMaxWaiting = 64
	defaultMaxWait    = 10 * time.Minute
	maxSlots          = 1024
	maxWaiting        = 100_000
)

// Queue bounds the concurrent requests to a local server, which has few slots, each with one cached
// prefix. Users take turns, no matter how many agents each of them runs. Conversations go before
// side requests, such as those for a title, unless a side request has waited for over 30 seconds. A
// conversation gets the slot that has its prefix if that slot is free, else the slot with the
// prefix that costs least to read again.
//
// Responses to queued requests carry `X-Llm-Cache-Queue-Position`, the number of requests ahead on
// arrival, `X-Llm-Cache-Queue-Expected-Ms`, the wait expected then, and
// `X-Llm-Cache-Queue-Wait-Ms`. A stream opened by a heartbeat during the wait has the first two
// only: its headers were sent before the wait was over. A full queue answers 429 with
// `Retry-After`; a request of a user with fewer waiting requests displaces one of the user with the
// most. A client that leaves gives up its place at once.
type Queue struct {
	// Name identifies the queue: sites with the same name share it. Default: one queue for each
	// preset.
	Name string `json:"name,omitempty"`
	// Slots is the number of concurrent requests, over all servers behind the site. 1 to 1024.
	// Default: 256 for vllm and sglang, which batch requests, else 1.
	Slots int `json:"slots,omitempty"`
	// MaxWaiting is the maximum number of waiting requests. 0 to 100,000. Default: 64.
	MaxWaiting *int `json:"max_waiting,omitempty"`
	// MaxWait is the maximum wait; a request that waits longer gets 429. Default: 10m.
	MaxWait caddy.Duration `json:"max_wait,omitempty"`
}

// Validate returns an error for the first bound out of its range.
func (q *Queue) Validate() error {
	if q == nil {
		return nil
	}
	if q.Slots < 0 || q.Slots > maxSlots {
		return fmt.Errorf("slots must be between 1 and %d, got %d", maxSlots, q.Slots)
	}
	if q.MaxWaiting != nil && (*q.MaxWaiting < 0 || *q.MaxWaiting > maxWaiting) {
		return fmt.Errorf("max_waiting must be between 0 and %d, got %d", maxWaiting, *q.MaxWaiting)
	}
	if q.MaxWait < 0 {
		return fmt.Errorf("max_wait: %s is below zero", time.Duration(q.MaxWait))
	}
	return nil
}

func (q *Queue) limits(slots int) queue.Limits {
	l := queue.Limits{Slots: q.Slots, Waiting: defaultMaxWaiting, Patience: time.Duration(q.MaxWait)}
	if l.Slots == 0 {
		l.Slots = max(slots, defaultSlots)
	}
	if q.MaxWaiting != nil {
		l.Waiting = *q.MaxWaiting
	}
	if l.Patience == 0 {
		l.Patience = defaultMaxWait
	}
	return l
}

// SharedName returns the queue's name, which sites in front of the same preset share by default.
func (q *Queue) SharedName(preset string) string {
	if q.Name == "" && preset != "" {
		return "upstream " + preset
	}
	return q.Name
}

// Queues are the open queues of a state, by name.
type Queues struct{ shared.Pool[*Slots] }

var _ state.Viewer = (*Queues)(nil)

// QueuesOf returns the queues of a state.
func QueuesOf(s *state.State) *Queues { return state.Part(s, func() *Queues { return new(Queues) }) }

// Slots is an open queue. It outlives the configurations of the sites that share it.
type Slots struct {
	shared.Pins
	*queue.Queue
	name string
}

// Close implements [shared.Value].
func (*Slots) Close() error { return nil }

// Open takes a share of the queue of a site in front of an upstream.
func (o *Queues) Open(q *Queue, up *upstream.Upstream) (*shared.Share[*Slots], error) {
	name := q.SharedName(up.Name())
	return o.Share(name, func() (*Slots, error) { return &Slots{Queue: queue.New(q.limits(up.Slots())), name: name}, nil })
}

// Govern sets the limits of an open queue.
func (q *Queue) Govern(slots *Slots, up *upstream.Upstream) { slots.SetLimits(q.limits(up.Slots())) }

// View implements [state.Viewer].
func (o *Queues) View(v *page.View) {
	for _, s := range o.All() {
		q := s.Report()
		b := page.Queue{
			Name: cmp.Or(strings.TrimPrefix(s.name, "upstream "), "box"), Slots: q.Slots, Running: q.Running, Waiting: q.Waiting,
			Expected: q.Expected.Seconds(),
			Users:    []page.Turns{},
		}
		for _, p := range q.Users {
			b.Users = append(b.Users, page.Turns(p))
		}
		v.Queues = append(v.Queues, b)
	}
}

// Layer returns next behind the queue, or next itself without a queue. The request's place is
// stored in at. A request that has to wait ends detached work, which may occupy a slot.
func (q *Queue) Layer(
	next caddyhttp.Handler, slots *Slots, format wire.Format, t queue.Ticket, at *atomic.Pointer[Place], left *Rejoin,
) caddyhttp.Handler {
	if q == nil {
		return next
	}
	return &gate{slots: slots, next: next, format: format, ticket: t, place: at, left: left}
}

type gate struct {
	slots  *Slots
	next   caddyhttp.Handler
	format wire.Format // of the client
	ticket queue.Ticket
	place  *atomic.Pointer[Place] // for a stream opened by a heartbeat
	left   *Rejoin
}

// Place is a request's position in the queue on arrival.
type Place struct {
	ahead    int
	expected time.Duration
}

// Stamp adds the place to a header.
func (p *Place) Stamp(h http.Header) {
	h.Set("X-Llm-Cache-Queue-Position", strconv.Itoa(p.ahead))
	h.Set("X-Llm-Cache-Queue-Expected-Ms", strconv.FormatInt(p.expected.Milliseconds(), 10))
}

const readAhead = 64 << 10

// ServeHTTP implements caddyhttp.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	// net/http notices that a client left only after reading all that the client has sent.
	_, _ = httpx.ReadAhead(r, readAhead, nil)
	q := g.slots
	if q.Pin() { // else the request has come late, and has the queue to itself
		defer q.Unpin()
	}
	turn, err := q.Enter(g.ticket)
	h := w.Header()
	at := &Place{turn.Ahead, turn.Expected}
	at.Stamp(h)
	g.place.Store(at)
	queueMetrics.expected.Set(q.Expected().Seconds())
	// Detached work may occupy the slot.
	done := func() {}
	if err != nil || turn.Waits() {
		done = g.left.Yield()
	}
	if err != nil {
		done()
		queueMetrics.refused.WithLabelValues("full").Inc()
		return g.refuse(w, max(turn.Expected, q.RetryAfter()), fmt.Sprintf("the model is busy: %d requests wait already",
			turn.Ahead))
	}
	queueMetrics.waiting.Inc()
	err = turn.Wait(r.Context())
	done()
	queueMetrics.waiting.Dec()
	waited := turn.Waited()
	queueMetrics.wait.Observe(waited.Seconds())
	switch {
	case errors.Is(err, queue.ErrFull):
		queueMetrics.refused.WithLabelValues("share").Inc()
		return g.refuse(w, q.RetryAfter(), "the model is busy: others with fewer requests wait, too")
	case errors.Is(err, queue.ErrPatience):
		queueMetrics.refused.WithLabelValues("max_wait").Inc()
		return g.refuse(w, q.RetryAfter(), "the model is busy: no slot came free within "+waited.Round(time.Second).String())
	case errors.Is(err, queue.ErrUnreached):
		return caddyhttp.Error(http.StatusBadGateway, err)
	case err != nil:
		return caddyhttp.Error(StatusClientClosed, fmt.Errorf("waiting for a slot: %w", err))
	}
	defer func() {
		turn.Leave()
		queueMetrics.expected.Set(q.Expected().Seconds())
	}()
	queueMetrics.running.Inc()
	defer queueMetrics.running.Dec()
	h.Set("X-Llm-Cache-Queue-Wait-Ms", strconv.FormatInt(waited.Milliseconds(), 10))
	httpx.Waited(w, waited)
	caddyhttp.SetVar(r.Context(), "llm_slot", turn.Slot)
	err = g.next.ServeHTTP(w, r)
	_, unreached := errors.AsType[reverseproxy.DialError](err)
	q.Reached(!unreached)
	return err
}

// StatusClientClosed is the status that Caddy logs if the client left.
const StatusClientClosed = 499

func (g *gate) refuse(w http.ResponseWriter, after time.Duration, message string) error {
	h := w.Header()
	// Clients give up on waits of over a minute.
	h["Retry-After"] = []string{strconv.Itoa(int(min(max(after, time.Second), time.Minute).Seconds()))}
	if g.format == "" {
		return caddyhttp.Error(http.StatusTooManyRequests, errors.New(message))
	}
	return httpx.Fail(w, g.format, &translate.Failure{
		Status: http.StatusTooManyRequests, Type: "rate_limit_error", Message: message,
	})
}

// UnmarshalCaddyfile sets the options from Caddyfile tokens. Syntax:
//
//	queue [<name>] {
//		slots    <requests>
//		max_waiting <requests>
//		max_wait    <duration>
//	}
func (q *Queue) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		q.Name = d.Val()
		if n, err := strconv.Atoi(q.Name); err == nil {
			return d.Errf("queue: a name is expected, got %d: write slots %[1]d into its block", n)
		}
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return option.Block(d, "queue", option.Options{
		"slots":       option.Checked(option.Count(&q.Slots), q.Validate),
		"max_waiting": option.Checked(option.Number(&q.MaxWaiting), q.Validate),
		"max_wait":    option.Checked(option.Duration(&q.MaxWait), q.Validate),
	})
}

// queueMetrics live as long as the process.
var queueMetrics = struct {
	running, waiting, expected prometheus.Gauge
	wait                       prometheus.Histogram
	refused                    *prometheus.CounterVec
}{
	running: metric.Gauge("queue_running", "Requests that have a slot."),
	waiting: metric.Gauge("queue_waiting", "Requests that wait for a slot."),
	expected: metric.Gauge("queue_expected_wait_seconds",
		"How long a request that came now would wait for a slot, by how long those before took."),
	wait: metric.Histogram("queue_wait_seconds", "How long requests waited for a slot, those that gave up included.",
		0.001, 0.1, 1, 3, 10, 30, 60, 120, 300, 600),
	refused: metric.CounterOf("queue_refused_total",
		"Requests answered by 429, because the queue was full or had no slot for too long.", "reason",
		"full", "max_wait", "share"),
}
