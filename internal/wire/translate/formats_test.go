// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

var update = flag.Bool("update", false, "write docs/reference/formats.md anew")

// row is a row of the tables in docs/reference/formats.md: the result of one feature between a
// client and an upstream. An empty cell means that the client's format does not support the
// feature.
type row struct {
	name string
	cell func(t *testing.T, client, upstream wire.Format) string
}

// loss is a feature that does not reach some upstreams.
type loss struct {
	clients   []string // with the member that has the feature
	upstreams string
	result    string
}

// losses returns the losses of a row, those of several clients together where upstreams and result are the same.
func (r row) losses(t *testing.T) (all []loss) {
	member := regexp.MustCompile("^(left out|refused): (`[^`]+`)(: )?")
	for _, client := range translate.Formats() {
		at := map[string][]string{} // upstreams by result
		for _, upstream := range translate.Formats() {
			if cell := r.cell(t, client, upstream); cell != none && !strings.HasPrefix(cell, works) {
				at[cell] = append(at[cell], string(upstream))
			}
		}
		for _, cell := range slices.Sorted(maps.Keys(at)) {
			l := loss{[]string{string(client)}, strings.Join(at[cell], ", "), member.ReplaceAllString(cell, "$1$3")}
			if len(at[cell]) == len(translate.Formats())-1 {
				l.upstreams = "all others"
			}
			if m := member.FindStringSubmatch(cell); m != nil {
				l.clients[0] += " " + m[2]
			}
			i := slices.IndexFunc(all, func(o loss) bool { return o.upstreams == l.upstreams && o.result == l.result })
			if i < 0 {
				all = append(all, l)
			} else {
				all[i].clients = append(all[i].clients, l.clients...)
			}
		}
	}
	return all
}

// section is a part of docs/reference/formats.md with a table of its own.
type section struct {
	title, intro string
	rows         []row
}

// sections are filled by the tests of requests and of answers.
var sections = []section{{
	title: "Requests",
	intro: "Anthropic and Gemini refuse a conversation that begins with the model, an empty message, and, at a Claude\n" +
		"without prefill, an end by the model: there the user says \"Go on.\". Results stand behind their calls; a repeated\n" +
		"call ID becomes another one (`a`, `a_2`); messages of the model in a row are one. Orders to clear\n" +
		"(`context_management`) are [carried out first](../concepts/planner.md#cleared-on-the-clients-order).",
	rows: featureRows(),
}, {
	title: "Answers",
	intro: "The same holds for streamed answers and for answers in one piece. A cut stream stays cut.",
	rows:  answerRows(),
}}

const (
	works = "works"
	none  = "–"
)

func featureRows() (rows []row) {
	for _, f := range features {
		rows = append(rows, row{f.name, func(t *testing.T, client, upstream wire.Format) string {
			return f.cell(t, client, upstream)
		}})
	}
	return rows
}

// tableModels are the models of the tables.
var tableModels = map[wire.Format]string{
	wire.Anthropic: "claude-opus-4-5", wire.OpenAIChat: "m", wire.OpenAIResponses: "m", wire.Gemini: "gemini-2.5-pro",
	wire.Interactions: "gemini-2.5-pro",
}

// cell translates a feature's request and describes the result. A feature lost without a report
// fails the test.
func (f feature) cell(t *testing.T, client, upstream wire.Format) string {
	body, ok := f.bodies(t)[client]
	if !ok {
		return none
	}
	path, query := pathOf(client)
	if client == wire.Gemini && f.name != "streamed answer" {
		path, query = "/v1beta/models/m:generateContent", ""
	}
	in := translate.Incoming{Body: []byte(body), Path: path, Query: query}
	out, err := translate.Convert(client, upstream, in,
		translate.Options{Model: func(string) string { return tableModels[upstream] }})
	var refused *translate.Unsupported
	switch {
	case errors.As(err, &refused):
		return "refused: `" + refused.Field + "`: " + refused.Reason
	case err != nil:
		t.Fatalf("%s: %s to %s: %v", f.name, client, upstream, err)
	case client == upstream:
		if !bytes.Equal(out.Body.Bytes(), in.Body) || out.Path != path || out.Query != query {
			t.Errorf("%s: %s to itself: changed", f.name, client)
		}
		return works
	}
	if !json.Valid(out.Body.Bytes()) {
		t.Errorf("%s: %s to %s: not JSON: %s", f.name, client, upstream, out.Body.Bytes())
	}
	q, err := translate.Read(upstream, translate.Incoming{Body: out.Body.Bytes(), Path: out.Path, Query: out.Query})
	if err != nil {
		t.Fatalf("%s: %s to %s: %v\n%s", f.name, client, upstream, err, out.Body.Bytes())
	}
	switch {
	case f.kept(q):
		return works
	case len(out.Stop) > 0:
		return works + ", by cutting the answer"
	case len(out.Dropped) > 0:
		return "left out: `" + strings.Join(out.Dropped, "`, `") + "`"
	}
	t.Errorf("%s: %s to %s: lost without a word: %s", f.name, client, upstream, out.Body.Bytes())
	return ""
}

const formatsFile = "../../../docs/reference/formats.md"

// The tables in docs/reference/formats.md match the code.
func TestFormatsTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Formats

The features that do not pass between a client of one format and an upstream of another; all others do. *Left out* members are
listed in the header ` + "`X-Llm-Cache-Dropped`" + `; *refused* requests get a 400 with the member and that text. Between a format and itself the
body is not touched. A provider's own API also loses members that it would refuse: reasoning made elsewhere (its own comes back whole), and
sampling parameters of models that reason. ` + "`go test ./internal/wire/translate -run TestFormatsTable -update`" + ` writes this page.
`)
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| feature | client | upstream | result |\n|---|---|---|---|\n", s.title, s.intro)
		for _, r := range s.rows {
			for _, l := range r.losses(t) {
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.name, strings.Join(l.clients, ", "), l.upstreams, l.result)
			}
		}
	}
	if *update {
		if err := os.WriteFile(formatsFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(formatsFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("%s is not what the code does; run go test ./translate -run TestFormatsTable -update", formatsFile)
	}
}

// A provider's own API gets at most the features of other upstreams, and always JSON.
func TestFeaturesOfficial(t *testing.T) {
	models := map[wire.Format]string{
		wire.Anthropic: "claude-opus-5-5", wire.OpenAIChat: "gpt-5.2",
		wire.OpenAIResponses: "gpt-5.2", wire.Gemini: "gemini-3.1-pro", wire.Interactions: "gemini-3.1-pro",
	}
	for _, f := range features {
		for client, body := range f.bodies(t) {
			for _, upstream := range translate.Formats() {
				path, query := pathOf(client)
				out, err := translate.Convert(client, upstream, translate.Incoming{Body: []byte(body), Path: path, Query: query},
					translate.Options{Official: true, Model: func(string) string { return models[upstream] }})
				if _, refused := errors.AsType[*translate.Unsupported](err); refused {
					continue
				}
				if err != nil {
					t.Errorf("%s: %s to %s: %v", f.name, client, upstream, err)
				} else if !json.Valid(out.Body.Bytes()) {
					t.Errorf("%s: %s to %s: not JSON: %s", f.name, client, upstream, out.Body.Bytes())
				}
			}
		}
	}
}
