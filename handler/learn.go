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

package handler

import (
	"context"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

const (
	// learnFrom is how far back the record is read for habits.
	learnFrom = 28 * 24 * time.Hour
	// learnTime bounds how long that may take.
	learnTime = time.Minute
)

// errEnough ends the reading of the record.
var errEnough = errors.New("enough was read")

// learn has the keeper learn from the record how long people pause, in the
// background and once, where the record can be read again.
func (a *App) learn() {
	if a.ledger == nil {
		return
	}
	k := a.lease.state.keeper
	store, err := a.ledger.sink.store.get()
	source, ok := store.(audit.Source)
	if err != nil || !ok || !k.learned.CompareAndSwap(false, true) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), learnTime)
	a.unlearn = cancel
	go layer.Background("learning from the audit store", func() {
		defer cancel()
		now := time.Now()
		history, err := pausesOf(ctx, source, now.Add(-learnFrom))
		if errors.Is(err, context.Canceled) { // the configuration has ended; the next one reads
			k.learned.Store(false)
			return
		}
		history.Teach(&k.schedule.Learned, now)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			a.logger.Warn("learning from the audit store how long people pause", zap.Error(err))
		}
	})
}

// pausesOf reads the record from some time on.
func pausesOf(ctx context.Context, source audit.Source, since time.Time) (*keepalive.History, error) {
	h := new(keepalive.History)
	err := source.Each(ctx, since, func(r *audit.Record) error {
		if r.Kind != audit.KindTurn || r.Turns != 1 || r.Outcome != audit.Completed || !wire.Format(r.UpstreamFormat).Traits().Markers {
			return nil
		}
		if !h.Add(keepalive.Past{
			Habit:   keepalive.Habit{Tenant: recordedTenant(r.Tenant), Client: hashed(r.Client), Hour: uint8(r.At.Local().Hour())},
			Session: r.Session, Lineage: r.Lineage, At: r.At, Tool: r.StopReason == "tool_use",
		}) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return h, err
}

// recordedTenant is a tenant as it stands on record.
func recordedTenant(s string) (t [16]byte) {
	if b, err := hex.DecodeString(s); err == nil {
		copy(t[:], b)
	}
	return t
}

// habit is whose pause begins. A tenant goes by the name it has on record, if
// there is one, so that what was learned outlives the process.
func (c *call) habit(agent string, begun time.Time) keepalive.Habit {
	h := keepalive.Habit{Tenant: c.tenant, Client: hashed(clientName(agent)), Hour: uint8(begun.Hour())}
	if c.account != nil {
		h.Tenant = recordedTenant(c.account.record.Tenant)
	}
	return h
}

func hashed(name string) uint64 {
	f := fnv.New64a()
	_, _ = f.Write([]byte(name))
	return f.Sum64()
}
