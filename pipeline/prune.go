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
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// minStub is shorter than any stub.
const minStub = 80

// prune replaces tool results of the middle zone that the model has not
// referred to for K answers by stubs. A result compacted before is pruned only
// if that still saves something.
func (f *frame) prune() {
	o := &f.o.Prune
	if o.Mode == stage.Off {
		return
	}
	after := *o.After
	for i := range f.Blocks {
		b := &f.Blocks[i]
		t := f.States[i].Trait
		if t == "" || f.States[i].Pinned || b.Kind != wire.KindToolResult || int(f.States[i].Unused) < after || b.Has(wire.FlagError) || !f.zones.middle(b) || !f.may(i) {
			continue
		}
		if e := f.States[i].Edit; e != nil && e.Stage == stage.Prune || f.Size(i) < minTrait || !f.pays(o.Mode, i, f.Size(i)-minStub) {
			continue
		}
		value := content.WithText(f.View, b, f.stub(i, *o.Preview))
		if saving := f.Size(i) - len(value); saving >= stage.MinGain && f.pays(o.Mode, i, saving) {
			f.set(i, stage.Prune, wire.OpReplace, value)
		}
	}
}
