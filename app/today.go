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

package app

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/page"
)

// today counts the turns of the process, whether they are put on record or not.
var today = page.NewTally(time.Now)

// seeded tells whether what was on record before the process began is counted.
var seeded atomic.Bool

// Count counts a turn, or a request of ours, that is over.
func Count(r *audit.Record) {
	client := r.ClientUSD
	if r.Kind != audit.KindTurn && r.Kind != audit.KindSide {
		client = 0 // no client has asked
	}
	countCost(r.USD, client, r.WouldSaveUSD)
	countPerson(r)
	today.Add(r)
}

// mostPeople bounds the people that metrics tell apart: without names, whoever sends
// another key is another.
const mostPeople = 200

var (
	personCost   = metric.CounterVec("person_cost_usd_total", "Cost of turns in US dollars where prices are known, by person, of whom the first 200 are told apart: actual; client, of the clients' own bytes; would, of the turns as the policy observe would have them, and of the others as they were.", "person", "kind")
	personTokens = metric.CounterVec("person_tokens_total", "Tokens by person: prompt, read (the part of it that came from a cache) and output.", "person", "bucket")
	personTurns  = metric.CounterVec("person_turns_total", "Turns by person.", "person")
)

var people struct {
	sync.Mutex
	met map[string]struct{}
}

// known returns the name by which metrics tell a person.
func known(person string) string {
	people.Lock()
	defer people.Unlock()
	if _, ok := people.met[person]; ok {
		return person
	}
	if len(people.met) >= mostPeople {
		return page.Others
	}
	if people.met == nil {
		people.met = map[string]struct{}{}
	}
	people.met[person] = struct{}{}
	return person
}

func countPerson(r *audit.Record) {
	name := known(r.User)
	personTurns.WithLabelValues(name).Add(float64(r.Turns))
	for _, c := range [...]struct {
		kind string
		usd  float64
	}{{"actual", r.USD}, {"client", r.ClientUSD}, {"would", r.USD - r.WouldSaveUSD}} {
		if c.usd > 0 {
			personCost.WithLabelValues(name, c.kind).Add(c.usd)
		}
	}
	for _, b := range [...]struct {
		bucket string
		n      int64
	}{{"prompt", r.Billed.Prompt()}, {"read", r.Billed.Read}, {"output", r.Billed.Output}} {
		if b.n > 0 {
			personTokens.WithLabelValues(name, b.bucket).Add(float64(b.n))
		}
	}
}

// seed has what was on record before the process began counted, in the background and
// once, where the record can be read again.
func (a *App) seed() {
	if a.ledger == nil {
		return
	}
	store, err := a.ledger.Sink.store.get()
	source, ok := store.(audit.Source)
	if err != nil || !ok || !seeded.CompareAndSwap(false, true) {
		return
	}
	go layer.Background("reading today's turns", func() {
		ctx, cancel := context.WithTimeout(context.Background(), learnTime)
		defer cancel()
		if err := today.Seed(ctx, source); err != nil && !errors.Is(err, context.Canceled) {
			a.logger.Warn("reading today's turns from the audit store", zap.Error(err))
		}
	})
}
