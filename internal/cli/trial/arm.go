// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bytes"
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
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/harm"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/compressor"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/relay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/decode"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// arm sends one conversation through a handler of its own, under one policy,
// to a simulated provider of its own.
type arm struct {
	policy    pipeline.Policy
	profile   pricing.Profile
	handler   *handler.Handler
	state     *app.State
	store     sessioncache.Store
	up        *simulator.Handler
	worker    *compressor.Worker // leaves words out, nil if none are
	expanding bool               // the model asks for what it was not shown
	thread    *threading         // nil if the client sends everything
	holds     bool               // the upstream holds conversations
	changed   bool               // the last request came there other than the client wrote it, where bytes do not tell
	errors    atomic.Int64       // errors that the handler has logged
	result    Result
	watch     func(time.Time, *Step) // told of each request when it is over, if set
	watched   func(*Watched)         // the same, see [Options]

	// What follows belongs to the request that is under way.
	clock    time.Time
	request  *request
	sent     []byte
	known    *wire.Known // of the last body that was not the client's own
	attempts int
	asked    int // calls of the expand tool
	usage    wire.Usage
	refused  *pricing.APIError
	pings    pings
	speed    float64 // of the box at reading prompts, in tokens a second
}

// request is one request of a conversation, as all arms get it.
type request struct {
	body   []byte
	view   *wire.View
	header http.Header
	path   string
	at     time.Time
	end    time.Time
	answer *simulator.Answer
	edits  [][]string
	// continued reports whether the body holds all of the one before it.
	continued bool
	// base and baseCost are what the body itself came to, refused whether it was
	// refused.
	base     wire.Usage
	baseCost float64
	refused  bool
	// texts of the body, once an arm has asked for them.
	history []byte
}

// Asked is one request of a conversation, as its client sends it.
type Asked struct {
	// Conversation is the one that the request belongs to, Profile the provider's.
	Conversation *recording.Conversation
	// Profile: see Conversation.
	Profile pricing.Profile
	// View is the parsed request of the client.
	View *wire.View
	// Continued reports whether it holds all of the request before it.
	Continued bool
	// Billed is the usage of the unedited prompt, Cost its cost.
	Billed wire.Usage
	// Cost: see Billed.
	Cost float64
	// Edits are the lines that each edit in its answer quotes.
	Edits [][]string
}

// Watched is one request that is over.
type Watched struct {
	// View is what the client wrote, Sent the body that went upstream.
	View *wire.View
	// Sent: see View.
	Sent []byte
	// Answer is the recorded answer, Edits the lines that each of its edits quotes.
	Answer *simulator.Answer
	// Edits: see Answer.
	Edits [][]string
	// At is when it was sent, Cost what its prompt came to.
	At time.Time
	// Cost: see At.
	Cost float64
}

// storeBytes bounds the sessions of one arm: a conversation and some room.
const storeBytes = 64 << 20

func newArm(policy pipeline.Policy, profile pricing.Profile, o *Options) (*arm, error) {
	a := &arm{watched: o.Watch, expanding: o.Expanding, policy: policy, profile: profile, result: Result{Profile: profile.Name, Policy: policy}}
	a.up = &simulator.Handler{Cache: pricing.NewSimulator(profile.Config()), Hooks: simulator.Hooks{
		Now:    func(context.Context) time.Time { return a.clock },
		Answer: a.answer,
		Parse:  a.parse,
		Call:   func(_ context.Context, c *pricing.Call) { c.Client = a.request.view },
		Done:   a.done,
	}}
	store, err := sessioncache.NewMemory(sessioncache.MemoryOptions{MaxBytes: storeBytes, IdleTTL: 365 * 24 * time.Hour})
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	a.store = store
	if a.handler, err = configure(o.Handler); err != nil {
		_ = store.Close()
		return nil, err
	}
	if hold := a.handler.Hold; hold != nil {
		a.holds = hold.WebSocket || hold.Threads == relay.On || hold.Threads == relay.Auto
	}
	a.handler.Policy, a.handler.Planner.Need, a.handler.Planner.Harm = policy, o.need, o.Harm
	switch {
	case !o.KeepAlive:
		a.handler.KeepAlive = nil
	case a.handler.KeepAlive == nil:
		a.handler.KeepAlive = new(pinger.Options)
	}
	o.foldIdly(a.handler)
	if a.worker, err = o.leaveOut(a.handler); err != nil {
		_ = store.Close()
		return nil, err
	}
	if a.speed = o.Background; o.Threads && profile.Format.Traits().Threads {
		a.thread = new(threading)
	}
	if a.state, err = a.handler.Attach(store, profile.Prices, a.logger(), func() time.Time { return a.clock }); err != nil {
		_ = store.Close()
		return nil, fmt.Errorf("replay: %w", err)
	}
	return a, nil
}

// logger counts what the handler logs as an error and drops it.
func (a *arm) logger() *zap.Logger {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(nowhere{}), zapcore.ErrorLevel)
	return zap.New(zapcore.RegisterHooks(core, func(zapcore.Entry) error {
		a.errors.Add(1)
		return nil
	}))
}

// parse reads what has arrived upstream.
func (a *arm) parse(_ context.Context, f wire.Format, body []byte) (*wire.View, error) {
	if a.sent = body; a.thread == nil && !a.holds || gjson.GetBytes(body, "thread").Type == gjson.Null { // else it is not yet whole
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

// done notes what became of a request. The answer takes its time from here on.
func (a *arm) done(_ context.Context, u wire.Usage, refused *pricing.APIError) {
	u.Output = 0 // the same with and without the handler
	if a.pings.flying {
		return
	}
	a.usage, a.refused = a.usage.Add(u), refused
	if refused != nil {
		a.result.refuse(refused)
		return
	}
	a.clock = a.request.end
}

// run sends one request and notes what came of it.
func (a *arm) run(ctx context.Context, c *request) error {
	a.keep(c.at)
	a.idle(c.at)
	a.request, a.clock = c, c.at
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
		if err == nil && a.holds && w.status == http.StatusOK {
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

// serve has the handler serve a body.
func (a *arm) serve(ctx context.Context, c *request, header http.Header, body []byte, w *sink) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://replay.invalid"+c.path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	r.Header = header
	r.RemoteAddr, r.RequestURI = "127.0.0.1:1", c.path
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &caddyhttp.Server{})
	err = a.handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		a.up.ServeHTTP(w, r)
		return nil
	}))
	if err != nil {
		return fmt.Errorf("replay: the handler answered an error: %w", err)
	}
	return nil
}

// note adds a request to the result.
func (a *arm) note(c *request, w *sink, troubled bool) {
	res := &a.result
	res.Calls++
	res.Resent += a.attempts - 1 - a.asked
	if !c.refused { // else there is nothing that its cost could be compared with
		res.Sent = res.Sent.Add(a.usage)
		res.Cost += a.profile.Rules().Cost(a.usage)
	}
	res.MaxPrompt = max(res.MaxPrompt, a.usage.Prompt())
	if !c.refused && (a.refused != nil || w.status != http.StatusOK) {
		res.Rejected++
	}
	held := a.thread != nil || a.holds
	if held && a.changed || !held && !bytes.Equal(a.sent, c.body) {
		res.Changed++
	}
	// A request that the handler gave up on carries none of its headers.
	if troubled || (a.policy != pipeline.Off && w.header.Get("X-Llm-Cache-Session") == "") {
		res.FailedOpen++
	}
	if as, whole, wire, ok := wentAs(w.header.Get("X-Llm-Cache-Held")); ok {
		res.Held = sum(res.Held, map[string]int{as: 1})
		res.Whole, res.Wire = res.Whole+whole, res.Wire+wire
	}
	fired := transforms(w.header)
	res.Fired = sum(res.Fired, fired)
	harm := a.harm(c, c.edits)
	res.Edits += len(c.edits)
	res.Harmed += harm
	if a.watched != nil {
		a.watched(&Watched{View: c.view, Sent: a.sent, Answer: c.answer, Edits: c.edits, At: c.at, Cost: a.profile.Rules().Cost(a.usage)})
	}
	if a.watch != nil {
		a.watch(c.at, a.step(c, w, fired, harm))
	}
}

// transforms reads what the stages did from the header that tells it.
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

// wentAs reads how a request went to an upstream that holds conversations from the header
// that tells it.
func wentAs(held string) (as string, whole, wire int64, ok bool) {
	for i, field := range strings.Split(held, "; ") {
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
	return as, whole, wire, held != ""
}

// harm counts the edits that quote what was not shown.
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

// sink is the client's side of a request: it keeps status and headers and
// drops the answer, which it knows already.
type sink struct {
	header  http.Header
	status  int
	answer  *decode.Decoder // reads it, if set
	failure []byte          // an error, then
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

type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
