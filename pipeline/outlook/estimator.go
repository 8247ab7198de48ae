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

package outlook

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/calibration"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Estimator turns bytes of a conversation into tokens.
type Estimator struct {
	calibration *calibration.Calibration
	rate        float64
}

// NewEstimator returns that of a conversation, nil for one that begins. The session has
// to be locked while it is used.
func NewEstimator(c *calibration.Calibration, l *sessioncache.Lineage) Estimator {
	return Estimator{c, Rate(l)}
}

// Tokens estimates some bytes of a kind of block.
func (e Estimator) Tokens(k wire.Kind, bytes int) float64 {
	return e.rate * e.calibration.PerByte(k) * float64(bytes)
}

// Rate corrects estimates by what the last request of a lineage really took.
func Rate(l *sessioncache.Lineage) float64 {
	if l == nil || l.Estimate == 0 || l.Last.Prompt() == 0 {
		return 1
	}
	return min(max(float64(l.Last.Prompt())/float64(l.Estimate), 0.25), 4)
}
