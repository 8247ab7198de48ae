// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Insertions can be combined with all other edits of a message.
func TestInsert(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"},` +
		` {"type":"thinking","thinking":"c","signature":"s"},{"type":"text","text":"d"}]},{"content":"e","role":"user"}],` +
		`"tools":[{"name":"t"}]}`
	v, err := wire.Parse(wire.Anthropic, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		edits []wire.Edit
		want  string
	}{
		{
			"tool",
			[]wire.Edit{{0, wire.OpAfter, []byte(`{"name":"u"}`)}},
			strings.Replace(body, `{"name":"t"}`, `{"name":"t"},{"name":"u"}`, 1),
		},
		{
			"split",
			[]wire.Edit{{3, wire.OpBefore, []byte(`1`)}, {3, wire.OpSplit, []byte(`2`)}, {3, wire.OpRemove, nil}},
			strings.Replace(body, `{"type":"text","text":"b"}, {"type":"thinking","thinking":"c","signature":"s"},`,
				`{"type":"text","text":"b"},1]},2,{"role":"assistant","content":[`, 1),
		},
		{
			"before all",
			[]wire.Edit{{2, wire.OpSplit, []byte(`2`)}, {2, wire.OpRemove, nil}},
			strings.Replace(body, `{"role":"assistant","content":[{"type":"text","text":"b"}, `,
				`2,{"role":"assistant","content":[`, 1),
		},
		{
			"string",
			[]wire.Edit{{5, wire.OpBefore, []byte(`1`)}, {5, wire.OpMark, []byte(`{}`)}},
			strings.Replace(body, `{"content":"e","role":"user"}`,
				`{"content":[1,{"type":"text","text":"e","cache_control":{}}],"role":"user"}`, 1),
		},
		{
			"messages",
			[]wire.Edit{{2, wire.OpBeforeMessage, []byte(`1`)}, {5, wire.OpAfterMessage, []byte(`2`)}},
			strings.Replace(strings.Replace(body, `{"role":"assistant"`, `1,{"role":"assistant"`, 1), `"role":"user"}]`,
				`"role":"user"},2]`, 1),
		},
	} {
		got, err := v.Splice(c.edits)
		want := c.want
		if c.name == "split" || c.name == "before all" { // rebuilt content loses the white space between elements
			want = strings.ReplaceAll(want, "}, {", "},{")
		}
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, want)
		}
	}
	if _, err := v.Splice([]wire.Edit{{1, wire.OpSplit, nil}, {1, wire.OpRemove, nil}}); err == nil {
		t.Error("a message without content was made")
	}
}
