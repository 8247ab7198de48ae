// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// For a summary Codex leaves its tools out, so the whole conversation is read again. With the tools
// restored, nearly all of it is cached.
func TestSummaries(t *testing.T) {
	o := Options{Profiles: []string{"openai-responses"}, Policies: []pipeline.Policy{pipeline.Off, pipeline.CostAware}}
	without := replayed(t, o, "testdata/traces")
	o.Summaries = true
	with := replayed(t, o, "testdata/traces")
	if v := with.Violations(); len(v) > 0 {
		t.Errorf("%s", strings.Join(v, "\n"))
	}
	off, on := &with.Runs[0].Total, &with.Runs[1].Total
	client := off.BaseCost - without.Runs[0].Total.BaseCost
	ours := on.Cost - without.Runs[1].Total.Cost
	if off.Calls != without.Runs[0].Total.Calls+1 || on.Fired["tools"] != 1 || client <= 0 || ours > client/3 {
		t.Errorf("%d requests, the summary costs %.0f, with tools %.0f, stages %v", off.Calls, client, ours, on.Fired)
	}
}
