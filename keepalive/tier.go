// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import "sync"

// Tiers compares what the short lifetime and its pings have cost with what the
// long one would have: every token that is new would have been written at the
// dearer price, and what was written anew after a pause shorter than the long
// lifetime would have been read. It may be used from several goroutines.
type Tiers struct {
	mu      sync.Mutex
	report  TierReport
	tenants map[[16]byte]TierReport
}

const (
	// maxTenants bounds the tenants that are kept apart.
	maxTenants = 4096
	// enough is the number of requests from which a comparison counts.
	enough = 20
)

// TierReport is what the comparison has come to.
type TierReport struct {
	// Requests is the number of requests compared.
	Requests int `json:"requests"`
	// Pings is what pings have cost, Anew what writing after pauses has cost
	// more than reading, and Dearer what the long lifetime would have cost in
	// addition for everything that is new.
	Pings float64 `json:"pings"`
	// Anew: see Pings.
	Anew float64 `json:"written_anew"`
	// Dearer: see Pings.
	Dearer float64 `json:"dearer_writes"`
	// Gain is what the long lifetime would have saved; negative where it would
	// have cost more.
	Gain float64 `json:"long_tier_would_save"`
}

// Usage is one request, as the comparison needs it.
type Usage struct {
	// New is the number of tokens written that no earlier request had, Anew that
	// of tokens written again after a pause that the long lifetime outlasts.
	New, Anew int64
	// Pings is what the pings in the pause before it have cost.
	Pings float64
	// Write, WriteLong and Read are multiples of the price of uncached input.
	Write, WriteLong, Read float64
}

// Add takes a request of a tenant into account.
func (t *Tiers) Add(tenant [16]byte, u Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.add(u)
	one, ok := t.tenants[tenant]
	if !ok && len(t.tenants) >= maxTenants {
		for other := range t.tenants { // any one will do
			delete(t.tenants, other)
			break
		}
	}
	if t.tenants == nil {
		t.tenants = map[[16]byte]TierReport{}
	}
	one.add(u)
	t.tenants[tenant] = one
}

// Long reports whether the long lifetime would have been cheaper for a tenant, by
// enough requests to tell.
func (t *Tiers) Long(tenant [16]byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.tenants[tenant]
	return r.Requests >= enough && r.Gain > 0
}

func (r *TierReport) add(u Usage) {
	r.Requests++
	r.Pings += u.Pings
	r.Anew += float64(u.Anew) * (u.Write - u.Read)
	r.Dearer += float64(u.New) * (u.WriteLong - u.Write)
	r.Gain = r.Pings + r.Anew - r.Dearer
}

// Report returns what the comparison has come to.
func (t *Tiers) Report() TierReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.report
}
