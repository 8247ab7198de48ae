// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package report sums up the net savings in the audit records: as a table, as JSON, as CSV, and as a
// self-contained page of HTML.
package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/subscription"
)

// Keys are the keys that records can be grouped by.
var Keys = func() (keys []string) {
	for _, d := range dimensions {
		keys = append(keys, d.Key)
	}
	return keys
}()

var dimensions = append(slices.Clone(audit.Dimensions),
	audit.Dimension{Key: "fallback", Of: (*audit.Record).FallbackName},
	audit.Dimension{Key: "session", Of: func(r *audit.Record) string { return r.Session }},
	audit.Dimension{Key: "day", Of: func(r *audit.Record) string { return r.At.Local().Format(time.DateOnly) }})

// Sum is the sum of turns.
type Sum = audit.Sum

// Group is the sum of the turns with the same values of the keys in [Summary.By].
type Group struct {
	// Keys are the values by key. The name of the sum has them all.
	Keys map[string]string `json:"keys,omitempty"`
	*Sum
}

// Summary sums up the records of a time span.
type Summary struct {
	audit.Period
	// By has the keys of Groups, separated by commas.
	By string `json:"by"`
	// Groups are the sums, the largest saving first, days in order. By user groups, a turn is in the
	// sums of all groups of its user, and once in Total.
	Groups []*Group `json:"groups"`
}

// Summarise sums up the records since a time, grouped by some of Keys, separated by commas.
func Summarise(ctx context.Context, from audit.Source, since time.Time, by string) (*Summary, error) {
	keys, err := keysOf(by)
	if err != nil {
		return nil, err
	}
	grouped := groups{keys: keys, of: map[string]*Group{}}
	subscriptions := subscription.New()
	names := map[string]string{} // of users by tenant hash, for turns before they had names
	p, err := audit.Read(ctx, from, since, time.Now(), nil, func(r *audit.Record) {
		if r.User != r.Tenant {
			if other, ok := names[r.Tenant]; ok && other != r.User {
				names[r.Tenant] = "" // several users share the credential
			} else {
				names[r.Tenant] = r.User
			}
		}
		in := audit.NoGroup
		if slices.Contains(keys, "group") {
			in = r.GroupNames() // a turn counts in each of them
		}
		for _, group := range in {
			grouped.at(func(key string) string {
				if key == "group" {
					return group
				}
				return dimensions[slices.Index(Keys, key)].Of(r)
			}).Add(r)
		}
		r.CountWindows(subscriptions)
	})
	if err != nil {
		return nil, err
	}
	p.Total.Name = "total"
	grouped.rename(names)
	p.Windows = subscriptions.States()
	return &Summary{p, strings.Join(keys, ","), grouped.sorted()}, nil
}

// groups are groups by their keys.
type groups struct {
	keys []string
	of   map[string]*Group // by all values
}

// at returns the group with some values of the keys.
func (g *groups) at(value func(key string) string) *Group {
	var few [128]byte
	id := few[:0]
	for _, key := range g.keys {
		id = append(append(id, value(key)...), 0)
	}
	group := g.of[string(id)]
	if group != nil {
		return group
	}
	group = &Group{Keys: make(map[string]string, len(g.keys)), Sum: new(Sum)}
	names := make([]string, len(g.keys))
	for i, key := range g.keys {
		if names[i] = value(key); names[i] == "" {
			names[i] = audit.None
		}
		group.Keys[key] = names[i]
	}
	group.Name = strings.Join(names, " / ")
	g.of[string(id)] = group
	return group
}

// rename moves the sums of tenant hashes to the names that their users got later.
func (g *groups) rename(names map[string]string) {
	for id, before := range maps.Clone(g.of) {
		name := names[before.Keys["user"]]
		// Without a name, several users share the credential.
		if name == "" {
			continue
		}
		delete(g.of, id)
		g.at(func(key string) string {
			if key == "user" {
				return name
			}
			return before.Keys[key]
		}).Join(before.Sum)
	}
}

func (g *groups) sorted() []*Group {
	out := slices.Collect(maps.Values(g.of))
	slices.SortFunc(out, func(a, b *Group) int {
		// Days stay in their order.
		return cmp.Or(cmp.Compare(a.Keys["day"], b.Keys["day"]), audit.BySaving(a.Sum, b.Sum))
	})
	return out
}

// keysOf splits a list of keys.
func keysOf(by string) (keys []string, err error) {
	for key := range strings.SplitSeq(by, ",") {
		if key = strings.TrimSpace(key); !slices.Contains(Keys, key) || slices.Contains(keys, key) {
			return nil, fmt.Errorf("by must be some of %s, each once and separated by commas, got %q", strings.Join(Keys, ", "), by)
		}
		keys = append(keys, key)
	}
	return keys, nil
}
