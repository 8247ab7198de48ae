// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/harm"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/compressor"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/idlefold"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/relay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retention"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// arm sends one conversation through its own handler, under one policy, to its own simulated provider.
type arm struct {
	policy    pipeline.Policy
	profile   pricing.Profile
	handler   *handler.Handler
	state     *state.State
	sink      *app.Sink // of audit records, nil for none
	store     *sessioncache.Store
	up        *simulator.Handler
	worker    *compressor.Worker // compresses texts, nil for none
	expanding bool               // the model restores folded text
	thread    *threading         // nil if the client sends whole conversations
	retains   bool               // the upstream retains conversations
	changed   bool               // the last request reached the model changed, if retained
	errors    atomic.Int64       // errors that the handler logged
	result    Result
	watch     func(time.Time, *Step) // called after each request, if set
	watched   func(*Watched)         // likewise, see [Options]
	clock     *recordedClock

	// The rest is the state of the current request.
	request  *request
	until    time.Time        // the time of the next request, while the clock moves to it
	internal selfrequest.Kind // of the present request, 0 for a client's
	sent     []byte
	known    *wire.Known // of the last body that differed from the client's
	attempts int
	asked    int // calls of the expand tool
	usage    wire.Usage
	refused  *pricing.APIError
	pings    []Ping
	speed    float64 // of a local server reading prompts, in tokens a second
}

type request struct {
	body   []byte
	view   *wire.View
	header http.Header
	path   string
	at     time.Time
	end    time.Time
	answer *simulator.Answer
	edits  [][]string
	// continued reports whether the body extends the previous one.
	continued bool
	// base and baseCost are the bill of the body itself. refused reports whether the provider
	// refuses it.
	base     wire.Usage
	baseCost float64
	refused  bool
	// history is the texts of the body, extracted on demand.
	history []byte
}

// Asked is one request of a conversation, as its client sends it.
type Asked struct {
	// Conversation is the request's conversation, Profile the provider's profile.
	Conversation *recording.Conversation
	// Profile: see Conversation.
	Profile pricing.Profile
	// View is the parsed request of the client.
	View *wire.View
	// Continued reports whether the request extends the previous one.
	Continued bool
	// Billed is the usage of the unedited prompt, Cost its cost.
	Billed wire.Usage
	// Cost: see Billed.
	Cost float64
	// Edits are the quoted lines of each edit in the answer.
	Edits [][]string
}

// Watched is one finished request.
type Watched struct {
	// View is the client's request, Sent the body sent upstream.
	View *wire.View
	// Sent: see View.
	Sent []byte
	// Answer is the recorded answer, Edits the quoted lines of each of its edits.
	Answer *simulator.Answer
	// Edits: see Answer.
	Edits [][]string
	// At is the time of the request, Cost the cost of its prompt.
	At time.Time
	// Cost: see At.
	Cost float64
}

// storeBytes bounds the sessions of one arm: a conversation and some room.
const storeBytes = 64 << 20

func newArm(policy pipeline.Policy, profile pricing.Profile, o *Options) (*arm, error) {
	a := &arm{
		watched: o.Watch, expanding: o.Expanding, policy: policy, profile: profile,
		result: Result{Profile: profile.Name, Policy: policy},
	}
	a.clock = &recordedClock{now: o.Start, begun: map[string]int{}}
	a.up = &simulator.Handler{Cache: pricing.NewSimulator(profile.Config()), Hooks: simulator.Hooks{
		Now:    func(context.Context) time.Time { return a.clock.Now() },
		Answer: a.answer,
		Parse:  a.parse,
		Call:   func(_ context.Context, c *pricing.Call) { c.Client = a.request.view },
		Done:   a.done,
	}}
	store, err := sessioncache.New(sessioncache.Options{MaxBytes: storeBytes, IdleTTL: 365 * 24 * time.Hour})
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	a.store = store
	if a.handler, err = configure(o.Handler); err != nil {
		_ = store.Close()
		return nil, err
	}
	if o, ok := a.handler.Feature("retain").(*retention.Retention); ok {
		a.retains = o.WebSocket || o.Threads == relay.On || o.Threads == relay.Auto
	}
	a.handler.Policy, a.handler.Planner.Need, a.handler.Planner.Harm = policy, o.need, o.Harm
	switch {
	case !o.KeepAlive:
		a.handler.KeepAlive = nil
	case a.handler.KeepAlive == nil:
		a.handler.KeepAlive = new(pinger.Options)
	}
	o.foldIdly(a.handler)
	if a.worker, err = o.leaveOut(a.handler, a.clock); err != nil {
		_ = store.Close()
		return nil, err
	}
	if a.speed = o.Background; o.Threads && profile.Format.Traits().Threads {
		a.thread = new(threading)
	}
	a.state = state.New(shared.Process, store, nil, a.clock)
	a.state.Sender.Use(func(string) http.Handler { return http.HandlerFunc(a.carry) })
	k := pinger.Of(a.state)
	k.Watcher = a
	k.Schedule.Configure(keepalive.Options{}) // no jitter
	if o.record != nil {
		open := func() (audit.Store, error) { return recorder(o.record), nil }
		a.sink = app.NewSink(shared.Process, open, audit.Options{}, false, zap.NewNop())
	}
	if err = a.handler.Open(a.state, a.sink, cmp.Or(o.assumed, profile.Prices), a.logger()); err == nil {
		err = a.handler.Validate()
	}
	if err != nil {
		_ = a.state.Close()
		return nil, fmt.Errorf("replay: %w", err)
	}
	return a, nil
}

func (a *arm) logger() *zap.Logger {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(nowhere{}),
		zapcore.ErrorLevel)
	return zap.New(zapcore.RegisterHooks(core, func(zapcore.Entry) error {
		a.errors.Add(1)
		return nil
	}))
}

func (a *arm) parse(_ context.Context, f wire.Format, body []byte) (*wire.View, error) {
	// A delta is parsed twice, as it arrived and completed. Only the latter counts.
	if a.sent = body; a.thread == nil && !a.retains || gjson.GetBytes(body, "thread").Type == gjson.Null {
		a.attempts++
	}
	if bytes.Equal(body, a.request.body) {
		return a.request.view, nil
	}
	v, err := wire.Parse(f, body, func(wire.Hash) *wire.Known { return a.known })
	if err != nil {
		return nil, err
	}
	a.known = v.Known()
	return v, nil
}

func (a *arm) done(_ context.Context, u wire.Usage, refused *pricing.APIError) {
	u.Output = 0 // equal with and without the handler
	if a.internal != 0 {
		if b := &a.result.Background; a.internal == selfrequest.Fold && refused == nil {
			b.Finished++
			b.Processed += u.Uncached
		}
		return
	}
	a.usage, a.refused = a.usage.Add(u), refused
	if refused != nil {
		a.result.refuse(refused)
		return
	}
	// The next work of this arm begins after the response.
	a.clock.set(a.request.end)
}

func (a *arm) run(ctx context.Context, c *request) error {
	a.until = c.at
	a.clock.advance(c.at)
	a.clock.set(c.at)
	a.request = c
	a.result.Background.Planned = a.clock.count(idlefold.Doing)
	a.asked = 0
	a.sent, a.attempts, a.usage, a.refused = nil, 0, wire.Usage{}, nil
	logged := a.errors.Load()
	w := &sink{header: http.Header{}}
	var err error
	switch {
	case a.thread != nil:
		w, err = a.sendThreaded(ctx, c)
	default:
		err = a.serve(ctx, c, c.header.Clone(), c.body, w)
		if err == nil && a.retains && w.status == http.StatusOK {
			_, err = a.whole(c)
		}
	}
	if err != nil {
		return err
	}
	if a.attempts == 0 {
		return fmt.Errorf("replay: the request did not reach the upstream; the answer was %d", w.status)
	}
	a.note(c, w, a.errors.Load() > logged)
	return a.words(c, w)
}

func (a *arm) serve(ctx context.Context, c *request, header http.Header, body []byte, w *sink) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://replay.invalid"+c.path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	r.Header = header
	r.RemoteAddr, r.RequestURI = "127.0.0.1:1", c.path
	if err := a.handle(w, r); err != nil {
		return fmt.Errorf("replay: the handler answered an error: %w", err)
	}
	return nil
}

func (a *arm) handle(w http.ResponseWriter, r *http.Request) error {
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &caddyhttp.Server{})
	return a.handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		a.up.ServeHTTP(w, r)
		return nil
	}))
}

// carry sends an internal request of the handler, in place of a Caddy server.
func (a *arm) carry(w http.ResponseWriter, r *http.Request) {
	e := selfrequest.Of(r)
	if e.Kind == selfrequest.Fold && a.breaks(e.Tokens) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	a.internal = e.Kind
	defer func() { a.internal = 0 }()
	if err := a.handle(w, r); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (a *arm) note(c *request, w *sink, troubled bool) {
	res := &a.result
	res.Calls++
	res.Resent += a.attempts - 1 - a.asked
	if !c.refused { // the costs of refused requests cannot be compared
		res.Sent = res.Sent.Add(a.usage)
		res.Cost += a.profile.Rules().Cost(a.usage)
	}
	res.MaxPrompt = max(res.MaxPrompt, a.usage.Prompt())
	if !c.refused && (a.refused != nil || w.status != http.StatusOK) {
		res.Rejected++
	}
	retained := a.thread != nil || a.retains
	if retained && a.changed || !retained && !bytes.Equal(a.sent, c.body) {
		res.Changed++
	}
	// The response to a request that failed open has none of the handler's headers.
	if troubled || (a.policy != pipeline.Off && w.header.Get("X-Llm-Cache-Session") == "") {
		res.FailedOpen++
	}
	if as, whole, wire, ok := wentAs(w.header.Get("X-Llm-Cache-Retained")); ok {
		res.Retained = sum(res.Retained, map[string]int{as: 1})
		res.Whole, res.Wire = res.Whole+whole, res.Wire+wire
	}
	fired := transforms(w.header)
	res.Fired = sum(res.Fired, fired)
	harm := a.harm(c, c.edits)
	res.Edits += len(c.edits)
	res.Harmed += harm
	if a.watched != nil {
		a.watched(&Watched{
			View: c.view, Sent: a.sent, Answer: c.answer, Edits: c.edits, At: c.at,
			Cost: a.profile.Rules().Cost(a.usage),
		})
	}
	if a.watch != nil {
		a.watch(c.at, a.step(c, w, fired, harm))
	}
}

func transforms(h http.Header) map[string]int {
	var out map[string]int
	for field := range strings.SplitSeq(h.Get("X-Llm-Cache-Transforms"), ",") {
		name, count, ok := strings.Cut(strings.TrimSpace(field), ";n=")
		if n, err := strconv.Atoi(count); ok && err == nil {
			if out == nil {
				out = map[string]int{}
			}
			out[name] += n
		}
	}
	return out
}

func wentAs(header string) (as string, whole, wire int64, ok bool) {
	for i, field := range strings.Split(header, "; ") {
		name, value, _ := strings.Cut(field, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch {
		case i == 0:
			as = name
		case name == "cause":
			as = value
		case name == "sent":
			wire = n
		case name == "whole":
			whole = n
		}
	}
	if as != "delta" {
		wire = whole
	}
	return as, whole, wire, header != ""
}

func (a *arm) harm(c *request, edits [][]string) int {
	if len(edits) == 0 || bytes.Equal(a.sent, c.body) {
		return 0
	}
	if c.history == nil {
		c.history = harm.Texts(c.body)
	}
	n, shown := 0, harm.Texts(a.sent)
	for _, lines := range edits {
		if harm.Done(lines, c.history, shown) {
			n++
		}
	}
	return n
}

// sink is the client's side of a request, without the response, which is recorded.
type sink struct {
	header  http.Header
	status  int
	answer  *wire.Decoder // decodes the response, if set
	failure []byte        // the body of an error, if answer is set
}

func (w *sink) Header() http.Header { return w.header }

func (w *sink) WriteHeader(status int) {
	if status >= 200 && w.status == 0 {
		w.status = status
	}
}

func (w *sink) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.answer != nil && w.status == http.StatusOK {
		w.answer.Feed(b)
	} else if w.answer != nil {
		w.failure = append(w.failure, b...)
	}
	return len(b), nil
}

func (w *sink) Flush() {}

// recorder is an audit store that passes records on.
type recorder func(*audit.Record)

func (f recorder) Write(_ context.Context, batch []*audit.Record) error {
	for _, r := range batch {
		f(r)
	}
	return nil
}

func (recorder) Prune(context.Context, time.Time) (int64, error) { return 0, nil }
func (recorder) Close() error                                    { return nil }

type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
