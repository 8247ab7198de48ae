// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
)

// Sum is the sum of turns.
type Sum struct {
	// Name is the group's name.
	Name string `json:"name"`
	// Turns counts the clients' requests. Failed and Interrupted count those with that outcome,
	// Unpriced those of models without a known price. Tokens and costs include internal requests:
	// continuations, pings, warm-ups.
	Turns       int64 `json:"turns"`
	Failed      int64 `json:"failed"`
	Interrupted int64 `json:"interrupted"`
	Unpriced    int64 `json:"unpriced"`
	// Assumed is the number of turns that were charged at another model's prices.
	Assumed int64 `json:"assumed,omitempty"`
	// Refused counts the requests that were refused for a spent budget or an unknown model. They
	// are no turns.
	Refused int64 `json:"refused"`
	// Estimated counts the turns with estimated tokens, in whole or in part.
	Estimated int64 `json:"estimated"`
	// Billed is the usage that upstreams reported, Client the usage that the clients' own bytes
	// would have had.
	Billed Tokens `json:"billed"`
	Client Tokens `json:"client"`
	// ReadEstimated is the part of Billed.Read that upstreams did not report.
	ReadEstimated int64 `json:"read_estimated"`
	// Removed is the tokens that edits took out of prompts, WouldRemove the tokens of edits that
	// were only computed, both estimated.
	Removed     int64 `json:"removed"`
	WouldRemove int64 `json:"would_remove"`
	// Folded is the number of folded blocks, and FoldMisses the number of misses of folded text.
	Folded     int64 `json:"folded"`
	FoldMisses int64 `json:"fold_misses"`
	// Cost and ClientCost are in units of one uncached input token of each model, USD and ClientUSD
	// in US dollars where prices are known.
	Cost       float64 `json:"cost"`
	ClientCost float64 `json:"client_cost"`
	USD        float64 `json:"usd"`
	ClientUSD  float64 `json:"client_usd"`
	// WouldSave and WouldSaveUSD are the net savings of edits that the policy observe only computed.
	WouldSave    float64 `json:"would_save"`
	WouldSaveUSD float64 `json:"would_save_usd"`
	// Translation and TranslationUSD are the savings of the cache markers that translations add. No
	// other saving includes them.
	Translation    float64 `json:"translation"`
	TranslationUSD float64 `json:"translation_usd"`
}

// Priced reports whether the sum has a price in dollars.
func (s *Sum) Priced() bool { return s.ClientUSD > 0 }

// Actual returns the cost of the turns: dollars, or units if no price is known.
func (s *Sum) Actual() float64 {
	if s.Priced() {
		return s.USD
	}
	return s.Cost
}

// Unedited returns the cost that the client's own bytes would have had, in the unit of Actual.
func (s *Sum) Unedited() float64 {
	if s.Priced() {
		return s.ClientUSD
	}
	return s.ClientCost
}

// Saved returns the net saving, in the unit of Actual.
func (s *Sum) Saved() float64 { return s.Unedited() - s.Actual() }

// Observed reports whether edits were only computed in some of the turns.
func (s *Sum) Observed() bool { return s.WouldSave != 0 }

// Would returns the net saving of edits that were only computed, in the unit of Actual.
func (s *Sum) Would() float64 {
	if s.Priced() {
		return s.WouldSaveUSD
	}
	return s.WouldSave
}

// WouldShare returns Would as a share of Own.
func (s *Sum) WouldShare() float64 { return share(s.Would(), s.Unedited()) }

// SavedShare returns the net saving as a share of Own.
func (s *Sum) SavedShare() float64 { return share(s.Saved(), s.Unedited()) }

// ReadShare returns the share of the prompts that was read from a cache.
func (s *Sum) ReadShare() float64 { return share(float64(s.Billed.Read), float64(s.Billed.Prompt())) }

// Read formats ReadShare, with a leading ~ if a part of it is an estimate.
func (s *Sum) Read() string {
	about := ""
	if s.ReadEstimated > 0 {
		about = "~"
	}
	return about + figure.Percent(s.ReadShare())
}

// ClientReadShare is ReadShare for the client's own bytes.
func (s *Sum) ClientReadShare() float64 {
	return share(float64(s.Client.Read), float64(s.Client.Prompt()))
}

// Worth returns the actual and possible savings, for sorting: in dollars where prices are known,
// and in units.
func (s *Sum) Worth() (dollars, units float64) {
	return s.ClientUSD - s.USD + s.WouldSaveUSD, s.ClientCost - s.Cost + s.WouldSave
}

func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

// Add adds a record.
func (s *Sum) Add(r *Record) {
	if r.Outcome == Refused {
		s.Refused += r.Turns
		return
	}
	if r.IsTurn() {
		s.Turns += r.Turns
		switch r.Outcome {
		case Failed:
			s.Failed += r.Turns
		case Interrupted:
			s.Interrupted += r.Turns
		}
		if r.Unpriced() {
			s.Unpriced += r.Turns
		}
		if r.PricesOf != "" && r.USD > 0 {
			s.Assumed += r.Turns
		}
	}
	if removed := r.OriginalTokens - r.SentTokens; r.Policy == "observe" {
		s.WouldRemove += removed
	} else {
		s.Removed += removed
		s.Folded, s.FoldMisses = s.Folded+r.Folded, s.FoldMisses+int64(r.FoldMisses)
	}
	s.Billed.add(&r.Billed)
	s.ReadEstimated += r.ReadEstimated
	s.Estimated += r.Estimated
	s.Client.add(&r.ClientBilled)
	s.Cost += r.Cost
	s.ClientCost += r.ClientCost
	s.USD += r.USD
	s.ClientUSD += r.ClientUSD
	s.WouldSave += r.WouldSave
	s.WouldSaveUSD += r.WouldSaveUSD
	s.Translation += r.Translation
	s.TranslationUSD += r.TranslationUSD
}

// Join adds another sum.
func (s *Sum) Join(o *Sum) {
	s.Turns, s.Failed, s.Interrupted, s.Unpriced = s.Turns+o.Turns, s.Failed+o.Failed, s.Interrupted+o.Interrupted,
		s.Unpriced+o.Unpriced
	s.Assumed += o.Assumed
	s.Refused += o.Refused
	s.Removed, s.WouldRemove, s.ReadEstimated = s.Removed+o.Removed, s.WouldRemove+o.WouldRemove, s.ReadEstimated+
		o.ReadEstimated
	s.Estimated += o.Estimated
	s.Folded, s.FoldMisses = s.Folded+o.Folded, s.FoldMisses+o.FoldMisses
	s.Billed.add(&o.Billed)
	s.Client.add(&o.Client)
	s.Cost, s.ClientCost, s.USD, s.ClientUSD = s.Cost+o.Cost, s.ClientCost+o.ClientCost, s.USD+o.USD, s.ClientUSD+
		o.ClientUSD
	s.WouldSave, s.WouldSaveUSD = s.WouldSave+o.WouldSave, s.WouldSaveUSD+o.WouldSaveUSD
	s.Translation, s.TranslationUSD = s.Translation+o.Translation, s.TranslationUSD+o.TranslationUSD
}

// maxNames bounds the users, groups, projects, clients and models of a period that are told apart: clients
// choose the names of the latter three. Others counts the rest.
const maxNames = 500

// Others is the name of the remainder.
const Others = "(others)"

func of(sums map[string]*Sum, name string, limit int) *Sum {
	s := sums[name]
	if s != nil {
		return s
	}
	if len(sums) >= limit {
		if name = Others; sums[name] != nil {
			return sums[name]
		}
	}
	s = &Sum{Name: name}
	sums[name] = s
	return s
}

// sorted returns copies of sums, the largest saving first.
func sorted(sums map[string]*Sum) []*Sum {
	all := make([]*Sum, 0, len(sums))
	for _, s := range sums {
		one := *s
		all = append(all, &one)
	}
	slices.SortFunc(all, BySaving)
	return all
}

// BySaving orders sums by their savings, the largest first.
func BySaving(a, b *Sum) int {
	aDollars, aUnits := a.Worth()
	bDollars, bUnits := b.Worth()
	return cmp.Or(cmp.Compare(bDollars, aDollars), cmp.Compare(bUnits, aUnits), cmp.Compare(a.Name, b.Name))
}
