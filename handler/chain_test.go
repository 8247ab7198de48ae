// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"errors"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/feature"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// sharing is a feature that takes a share, and fails to open if it is to.
type sharing struct {
	feature.Feature
	fails    bool
	released *int
}

func (s sharing) Open(site *feature.Site) (*feature.Part, error) {
	if s.fails {
		return nil, errors.New("no file")
	}
	site.Share(s)
	return new(feature.Part), nil
}

func (s sharing) Release() error {
	*s.released++
	return nil
}

// TestFeatureFails: a feature that cannot be opened leaves no share of another one behind.
func TestFeatureFails(t *testing.T) {
	released := 0
	h := attached(t, pipeline.Options{})
	h.features = map[string]feature.Feature{"a": sharing{released: &released}, "b": sharing{fails: true}}
	if err := h.site.join(h); err == nil || err.Error() != "b: no file" {
		t.Errorf("got error %v, want b: no file", err)
	}
	if err := h.Cleanup(); err != nil || released != 1 {
		t.Errorf("%d shares released, want 1; %v", released, err)
	}
}

// TestLinks: the layers of features stand where the chain has their names, and nowhere else.
func TestLinks(t *testing.T) {
	var passed []string
	layer := func(name string) feature.Layer {
		return func(next caddyhttp.Handler, _ *feature.Request) caddyhttp.Handler {
			passed = append(passed, name)
			return next
		}
	}
	all, err := links(new(upstream.Profile), map[string]feature.Layer{
		"retain": layer("retain"), "rejoin": layer("rejoin"),
		"queue": layer("queue"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if l.takes == conversing|unparsed|unlooked || l.takes == conversing|pinging|folding { // queue, hold
			l.layer(new(passage), endpoint)
		}
	}
	if len(passed) != 2 || passed[0] != "queue" || passed[1] != "retain" {
		t.Errorf("passed %v, want queue and retain", passed)
	}
	if _, err := links(new(upstream.Profile), map[string]feature.Layer{"nowhere": layer("nowhere")}); err == nil {
		t.Error("no error for a layer that is not in the chain")
	}
}
