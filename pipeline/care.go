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

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// care is how many times its price the need of a folded block counts: least
// where nothing is cached, because all of it would have to be written again,
// most for files read, in a run of calls: the agent works with some of them, and much
// for what it has written itself, which it quotes from memory, and for what
// tools of other kinds report: to have a sub-agent's report again, it has to run
// again. What commands have printed is hardly ever wanted back once a task is over.
func (p *planner) care(i int) float64 {
	care := p.o.Planner.care()
	switch read := p.States[i].Class == sessioncache.ClassRead; {
	case p.Blocks[i].Kind == wire.KindToolUse:
		return care * careInputs
	case p.warm == 0:
		return care * careCold
	case p.loop && read:
		return care * careInLoop
	case p.loop && p.States[i].Class == sessioncache.ClassOther:
		return care * careReports
	case p.loop:
		return care
	case read:
		return care * careReads
	}
	return care * careBetween
}

const (
	careInputs  = 10
	careCold    = 0.25
	careInLoop  = 16
	careReports = 5
	careReads   = 1.5
	careBetween = 0.3
)
