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
	"fmt"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-llm-cache/caddy-llm-cache/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/page"
)

// dimension is one thing by which metrics tell turns apart. Whoever sends another key,
// another name of a model or another Host makes up another name, so that only the first are
// told apart; what comes later is counted together.
type dimension struct {
	most                int
	cost, tokens, turns *prometheus.CounterVec

	mu  sync.Mutex
	met map[string]struct{}
}

// longestName bounds what clients make up.
const longestName = 128

var (
	byPerson = newDimension("person", 200)
	byModel  = newDimension("model", 100)
	bySite   = newDimension("site", 100)
)

func newDimension(name string, most int) *dimension {
	return &dimension{
		most: most, met: map[string]struct{}{},
		cost: metric.CounterVec(name+"_cost_usd_total", fmt.Sprintf("Cost of turns in US dollars where prices are known, by %s, of which the first %d are told apart: "+
			"actual; client, of the clients' own bytes; would, of the turns as the policy observe would have them, and of the others as they were.", name, most), name, "kind"),
		tokens: metric.CounterVec(name+"_tokens_total", fmt.Sprintf("Tokens by %s: prompt, read (the part of it that came from a cache) and output.", name), name, "bucket"),
		turns:  metric.CounterVec(name+"_turns_total", fmt.Sprintf("Turns by %s.", name), name),
	}
}

// known returns the name by which metrics tell one.
func (d *dimension) known(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.met[name]; ok {
		return name
	}
	if len(d.met) >= d.most {
		return page.Others
	}
	d.met[name] = struct{}{}
	return name
}

// siteOf returns the name of the site that a Host header asks for.
func siteOf(host string) string {
	if port := strings.LastIndexByte(host, ':'); port > strings.LastIndexByte(host, ']') {
		host = host[:port]
	}
	return strings.ToLower(host)
}

// count counts a turn. All that belongs to a name is there from its first turn on.
func (d *dimension) count(name string, r *audit.Record) {
	if len(name) > longestName {
		name = name[:longestName]
	}
	name = d.known(strings.ToValidUTF8(name, "\uFFFD"))
	d.turns.WithLabelValues(name).Add(float64(r.Turns))
	d.cost.WithLabelValues(name, "actual").Add(max(0, r.USD))
	d.cost.WithLabelValues(name, "client").Add(max(0, r.ClientUSD))
	d.cost.WithLabelValues(name, "would").Add(max(0, r.USD-r.WouldSaveUSD))
	d.tokens.WithLabelValues(name, "prompt").Add(float64(max(0, r.Billed.Prompt())))
	d.tokens.WithLabelValues(name, "read").Add(float64(max(0, r.Billed.Read)))
	d.tokens.WithLabelValues(name, "output").Add(float64(max(0, r.Billed.Output)))
}
