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

package reference

import (
	"slices"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

func TestLinesAreTheQuotableOnes(t *testing.T) {
	line := "a line that is long enough to be quoted"
	want := []uint64{content.Hash(line), content.Hash(line), content.Hash(line), content.Hash(line)}
	got := appendLines(nil, "  "+line+"\r\nshort\n\n  12→"+line+"\n13\t"+line+"\n14: "+line)
	if !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func TestTermSet(t *testing.T) {
	var s termSet
	for round := range 3 {
		want := map[uint64]bool{}
		for i := range uint64(2000) {
			h := i % 700 * uint64(round+1) << 40
			if s.has(h) != want[h] {
				t.Fatalf("round %d: %x: %t", round, h, !want[h])
			}
			s.add(h)
			want[h] = true
		}
		if s.has(1) || !s.has(0) {
			t.Errorf("round %d: what was not added is there, or the other way round", round)
		}
		s.clear()
	}
}

func TestMentionsAreClean(t *testing.T) {
	for _, text := range []string{"pipeline/frame.go says so", "nothing"} {
		m := NewMention(&wire.Turn{Text: text})
		if got := m.Of(newTrait([]uint64{content.Hash("frame.go")}, nil)); got != (text != "nothing") {
			t.Errorf("%q: %t", text, got)
		}
		m.Release()
	}
}
