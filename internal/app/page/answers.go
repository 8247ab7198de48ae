// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// Source gives the page its data.
type Source struct {
	// Look returns the view of this moment, and Today its sums alone.
	Look  func() View
	Today func() audit.Period
	// Records returns the audit store, nil if there is none that can be read.
	Records func() audit.Source
	// Recent returns the turns in memory that a filter selects, the latest first.
	Recent func(audit.Filter) []audit.Turn
}

// Range is a time span that the page can show.
type Range struct {
	// Name is the range's name in addresses.
	Name string
	// Since returns the beginning of the range that ends at a time.
	Since func(now time.Time) time.Time
	// Before returns the time in the span before that a time is compared to.
	Before func(time.Time) time.Time
}

// today is the name of the range that the view has.
const today = "today"

// Ranges are the ranges beside today.
var Ranges = []Range{
	{"7d", days(7), func(t time.Time) time.Time { return t.AddDate(0, 0, -7) }},
	{"30d", days(30), func(t time.Time) time.Time { return t.AddDate(0, 0, -30) }},
	{
		"month", func(now time.Time) time.Time { return midnight(now.AddDate(0, 0, 1-now.Day())) },
		func(t time.Time) time.Time { return t.AddDate(0, -1, 0) },
	},
}

// days begins at the midnight that makes today the nth day.
func days(n int) func(time.Time) time.Time {
	return func(now time.Time) time.Time { return midnight(now.AddDate(0, 0, 1-n)) }
}

func midnight(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, t.Location())
}

const (
	// fresh is the time for which an answer is remembered, or fairness times as long as it took to find: so
	// viewers cost the store a twentieth of its time at most.
	fresh    = time.Minute
	fairness = 20
	// patience bounds the time for an answer. A large store takes a minute for 60 days.
	patience = 2 * time.Minute
	// maxAnswers bounds the answers in memory.
	maxAnswers = 64
	// maxTurns bounds the turns of an answer.
	maxTurns = 200
)

var (
	errNoRecords = errors.New("past days need an audit store that can be read: the global option llm_cache { audit }")
	errBadRange  = errors.New("range must be today, 7d, 30d or month")
)

// answers remembers the answers to questions about turns. One question at a time is put to the store.
type answers struct {
	source Source
	now    func() time.Time
	turn   chan struct{}     // has room for the question that is being answered
	known  map[string]answer // by question, guarded by turn
}

type answer struct {
	value any
	until time.Time
}

func newAnswers(s Source) *answers {
	return &answers{source: s, now: time.Now, turn: make(chan struct{}, 1), known: map[string]answer{}}
}

func (a *answers) serve(w http.ResponseWriter, r *http.Request, name string) {
	// The answer is of use to the next viewer, even if this one has left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
	defer cancel()
	q := r.URL.Query()
	var (
		body bytes.Buffer
		err  error
		kind = "application/json"
	)
	switch name {
	case "period":
		err = encoded(&body)(a.period(ctx, q.Get("range")))
	case "turns":
		err = encoded(&body)(a.turns(ctx, q))
	case "csv":
		kind = "text/csv; charset=utf-8"
		w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q",
			"llm_cache-"+safe(q.Get("by"))+"-"+safe(q.Get("range"))+".csv"))
		err = a.csv(ctx, &body, q)
	}
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.Header().Del("Content-Disposition")
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(body.Bytes())
}

// safe returns a value of the page's own for the name of a file, "" for others.
func safe(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ""
	}
	return word
}

// encoded returns a function that writes a value as JSON, unless there is an error.
func encoded(to *bytes.Buffer) func(value any, err error) error {
	return func(value any, err error) error {
		if err != nil {
			return err
		}
		return json.NewEncoder(to).Encode(value)
	}
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, errNoRecords):
		return http.StatusNotFound
	case errors.As(err, new(storeError)):
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// storeError is a store's failure. Its text has the reason, and no address or name of the store.
type storeError struct{ error }

func (e storeError) Error() string {
	return "the audit store does not answer (" + audit.ReasonOf(e.error) + ")"
}

// period returns the sums of a range.
func (a *answers) period(ctx context.Context, name string) (any, error) {
	if name == today || name == "" {
		p := a.source.Today()
		return &p, nil
	}
	for _, r := range Ranges {
		if r.Name != name {
			continue
		}
		return a.remembered(ctx, "period "+name, func(from audit.Source) (any, error) {
			now := a.now()
			p, err := audit.Read(ctx, from, r.Since(now), now, r.Before, nil)
			return &p, err
		})
	}
	return nil, errBadRange
}

// turns returns the latest turns of a user or a session in a range: those on record, or those in memory.
func (a *answers) turns(ctx context.Context, q url.Values) (any, error) {
	now := a.now()
	f := audit.Filter{User: q.Get("user"), Session: q.Get("session"), Limit: maxTurns}
	if f.User == "" && f.Session == "" {
		return nil, errors.New("turns need a user or a session")
	}
	f.Since = midnight(now)
	for _, r := range Ranges {
		if r.Name == q.Get("range") {
			f.Since = r.Since(now)
		}
	}
	turns, err := a.remembered(ctx, fmt.Sprintf("turns %q %q %s", f.User, f.Session, f.Since), func(from audit.Source) (any, error) {
		turns, err := audit.Recent(ctx, from, f)
		return turns, err
	})
	if errors.Is(err, errNoRecords) {
		return a.source.Recent(f), nil
	}
	return turns, err
}

func (a *answers) csv(ctx context.Context, to *bytes.Buffer, q url.Values) error {
	v, err := a.period(ctx, q.Get("range"))
	if err != nil {
		return err
	}
	var keys []string
	for _, b := range v.(*audit.Period).Dimensions {
		if b.Key == q.Get("by") {
			return b.WriteCSV(to)
		}
		keys = append(keys, b.Key)
	}
	return fmt.Errorf("by must be one of %s", strings.Join(keys, ", "))
}

// remembered returns the answer to a question, which find gets from the store unless it is known.
func (a *answers) remembered(ctx context.Context, question string, find func(audit.Source) (any, error)) (any, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return nil, storeError{ctx.Err()}
	}
	start := a.now()
	if known, ok := a.known[question]; ok && start.Before(known.until) {
		return known.value, nil
	}
	from := a.source.Records()
	if from == nil {
		return nil, errNoRecords
	}
	value, err := find(from)
	if err != nil {
		return nil, storeError{err}
	}
	end := a.now()
	if len(a.known) >= maxAnswers {
		clear(a.known)
	}
	a.known[question] = answer{value, end.Add(max(fresh, fairness*end.Sub(start)))}
	return value, nil
}
