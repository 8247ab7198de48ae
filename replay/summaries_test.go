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

package replay

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/settings"
)

// Codex reads the whole conversation anew for a summary, since it leaves its tools out;
// with them back in, nearly all of it is found in the cache.
func TestSummaries(t *testing.T) {
	o := Options{Profiles: []string{"openai-responses"}, Policies: []settings.Policy{settings.Off, settings.CostAware}}
	without := replayed(t, o, "testdata/traces")
	o.Summaries = true
	with := replayed(t, o, "testdata/traces")
	if v := with.Violations(); len(v) > 0 {
		t.Errorf("%s", strings.Join(v, "\n"))
	}
	off, on := &with.Runs[0].Total, &with.Runs[1].Total
	own := off.BaseCost - without.Runs[0].Total.BaseCost
	ours := on.Cost - without.Runs[1].Total.Cost
	if off.Calls != without.Runs[0].Total.Calls+1 || on.Fired["tools"] != 1 || own <= 0 || ours > own/3 {
		t.Errorf("%d requests, the summary costs %.0f, with tools %.0f, stages %v", off.Calls, own, ours, on.Fired)
	}
}
