// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package memory divides the memory budget of a Caddy.
package memory

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
)

const (
	// Min is the smallest budget, in bytes. Below it the sessions would have less than the
	// 1 MiB that a store needs.
	Min = 4 << 20
	// Max is the largest budget, in bytes.
	Max = 1 << 40

	// The default budget is one part in defaultPart of the machine's memory, within bounds:
	// the collector lets a heap grow to twice of its live bytes, and the machine has other
	// work to do.
	defaultPart = 4
	minDefault  = 256 << 20
	maxDefault  = 4 << 30
)

// Part is a share of the budget.
type Part struct {
	// Name is the part's name in metrics and on the page.
	Name string
	// Percent of the budget.
	Percent int64
}

// The parts. Their sum is 100 %.
var (
	// Sessions are hashes and prices of conversations, without which no edit is stable and
	// no bill is right: every other part is of no use to a forgotten session.
	Sessions = Part{"sessions", 35}
	// Bodies are requests in flight, in all forms in which they lie in memory at once.
	// Requests beyond this share wait, so it limits throughput.
	Bodies = Part{"bodies", 25}
	// Overlays are the beginnings of conversations with local servers, and the texts parsed of
	// them. A forgotten overlay costs one prefill.
	Overlays = Part{"overlays", 8}
	// Retained are the prompts that upstreams keep, to compare the next request with. A
	// forgotten prompt is uploaded again.
	Retained = Part{"retained", 8}
	// Translations are the finished turns of conversations in the upstream's format. A forgotten
	// conversation is translated again.
	Translations = Part{"translations", 6}
	// Sockets are the conversations on clients' WebSockets. A client of a forgotten
	// conversation sends all of it again.
	Sockets = Part{"sockets", 4}
	// Origin are the bodies that edges go on from. An edge uploads a forgotten one again.
	Origin = Part{"origin", 4}
	// Originals are folded texts, each of them short. A forgotten text is lost to the model
	// unless the client or the disk still has it.
	Originals = Part{"originals", 4}
	// Answers are kept for clients that may come back. They live for minutes.
	Answers = Part{"answers", 2}
	// Pings are the last requests of idle conversations, compressed.
	Pings = Part{"pings", 2}
	// Prefixes are the common beginnings of prompts, compressed, sent to local servers that have
	// lost them.
	Prefixes = Part{"prefixes", 2}
)

// Parts are all of them, the largest first.
var Parts = []Part{Sessions, Bodies, Overlays, Retained, Translations, Sockets, Origin, Originals, Answers, Pings, Prefixes}

// Of returns the part's share of a budget, in bytes.
func (p Part) Of(budget int64) int64 { return budget / 100 * p.Percent }

// Default is the budget for this machine, or for the container that limits it.
var Default = sync.OnceValue(func() int64 { return defaultOf(memlimit.FromCgroup, memlimit.FromSystem) })

// defaultOf returns the default budget for the smallest memory that any provider knows.
func defaultOf(providers ...memlimit.Provider) int64 {
	budget := int64(maxDefault)
	// A container's limit may lie below the machine's memory.
	for _, p := range providers {
		if n, err := p(); err == nil && n > 0 {
			budget = min(budget, int64(n/defaultPart))
		}
	}
	return max(budget, minDefault)
}

// Budget is the memory budget of an instance.
type Budget struct {
	bytes atomic.Int64 // 0 for the default

	mu      sync.Mutex
	holders []holder
}

type holder struct {
	Part
	bytes func() int64
	limit func(int64)
}

// Of returns the budget of an instance.
func Of(i *shared.Instance) *Budget { return shared.Part(i, func() *Budget { return new(Budget) }) }

// Bytes returns the budget in force.
func (b *Budget) Bytes() int64 { return cmp.Or(b.bytes.Load(), Default()) }

// Share returns a part's share of the budget in force, in bytes.
func (b *Budget) Share(p Part) int64 { return p.Of(b.Bytes()) }

// Set changes the budget, 0 for the default, and gives the parts of the instance their shares.
func (b *Budget) Set(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes.Store(n)
	for _, h := range b.holders {
		h.limit(b.Share(h.Part))
	}
}

// Register adds the holder of a part that the instance has once, and gives it its share.
func (b *Budget) Register(p Part, bytes func() int64, limit func(int64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holders = append(b.holders, holder{p, bytes, limit})
	// The part may register after the configuration has set the budget.
	limit(b.Share(p))
}

// Used returns the memory that a part takes, if the instance has it once.
func (b *Budget) Used(p Part) (sum int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.holders {
		if h.Part == p {
			sum += h.bytes()
		}
	}
	return sum
}

// Validate reports a budget out of range. 0 stands for the default.
func Validate(budget int64) error {
	if budget != 0 && (budget < Min || budget > Max) {
		return fmt.Errorf("memory must be from 4MiB to 1TiB, got %d bytes", budget)
	}
	return nil
}
