// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import "sync"

// Tiers compares the cost of the cache's short lifetime, pings included, with the cost of the long
// one. It is safe for concurrent use.
type Tiers struct {
	mu      sync.Mutex
	report  TierReport
	tenants map[[16]byte]TierReport
}

const (
	// maxTenants limits the tenants that are counted separately.
	maxTenants = 4096
	// enough is the minimum number of requests for a verdict.
	enough = 20
)

// TierReport is the result of the comparison. Costs are in uncached input tokens.
type TierReport struct {
	// Requests is the number of requests compared.
	Requests int `json:"requests"`
	// Pings is the cost of the pings.
	Pings float64 `json:"pings"`
	// Anew is the extra cost of writing over reading after pauses within the long lifetime.
	Anew float64 `json:"written_anew"`
	// Dearer is the extra cost of the long lifetime for all new tokens.
	Dearer float64 `json:"dearer_writes"`
	// Gain is the saving of the long lifetime, negative if it would have cost more.
	Gain float64 `json:"long_tier_would_save"`
}

// Usage is the part of a request's usage that the comparison needs.
type Usage struct {
	// New is the number of tokens written for the first time. Anew is the number of tokens written
	// again after a pause shorter than the long lifetime.
	New, Anew int64
	// Pings is the cost of the pings in the pause before the request.
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

// Long reports whether enough requests of a tenant show that the long lifetime would have been cheaper.
func (t *Tiers) Long(tenant [16]byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.tenants[tenant]
	return r.Requests >= enough && r.Gain > 0
}

func (r *TierReport) add(u Usage) {
	r.Requests++
	r.Pings += u.Pings
	// The long lifetime would have read these tokens instead of writing them again.
	r.Anew += float64(u.Anew) * (u.Write - u.Read)
	// The long lifetime writes every new token at the higher price.
	r.Dearer += float64(u.New) * (u.WriteLong - u.Write)
	r.Gain = r.Pings + r.Anew - r.Dearer
}

// Report returns the comparison of all tenants.
func (t *Tiers) Report() TierReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.report
}
