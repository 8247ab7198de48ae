// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-llm-cache/caddy-llm-cache"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/routes"
)

const (
	proxy     = "reverse_proxy 127.0.0.1:1\n"
	cached    = "llm_cache\n" + proxy
	auth      = "forward_auth 127.0.0.1:2 {\nuri /check\ncopy_headers Remote-User\n}\n"
	unreached = "llm_cache is never reached: what stands in front of it answers every request"
	empty     = "nothing that answers stands behind llm_cache: requests get an empty answer"
	noModel   = "no reverse_proxy stands behind llm_cache: requests reach no model"
	twice     = "llm_cache stands twice in the way of one request"
	alone     = "a named route holds llm_cache alone, and nothing that answers stands behind it: requests get an empty " +
		"answer"
	passed   = "requests pass llm_cache by: a route in front of it answers them"
	buffers  = "response_buffers behind llm_cache holds answers back: nothing streams"
	statuses = "replace_status behind llm_cache changes refusals of the upstream, which llm_cache reads and clients " +
		"act on"
	responses = "handle_response behind llm_cache changes refusals of the upstream, which llm_cache reads and clients " +
		"act on"
)

// The table has layouts of a site, and the findings in each; `· ` begins a note.
func TestExamine(t *testing.T) {
	for name, c := range map[string]struct {
		global string // the configuration before the site
		site   string
		want   []string
	}{
		"bare":                          {site: cached},
		"sorted by Caddy":               {site: proxy + "llm_cache"},
		"proxy in handle":               {site: "llm_cache\nhandle /v1/* {\n" + proxy + "}"},
		"proxy in handle, rest refused": {site: "llm_cache\nhandle /v1/* {\n" + proxy + "}\nhandle {\nrespond 404\n}"},
		"proxies in handle_path": {site: "llm_cache\nhandle_path /a/* {\n" + proxy + "}\nhandle_path /b/* {\n" +
			proxy + "}"},
		"proxy in route": {site: "llm_cache\nroute /v1/* {\n" + proxy + "}"},
		"proxy invoked":  {global: "&(p) {\n" + proxy + "}", site: "llm_cache\ninvoke p"},
		"handle, in it":  {site: "handle /v1/* {\n" + cached + "}"},
		"handles of which one is taken": {site: "@o path /v1/responses* /v1/chat/completions*\nhandle @o {\n" + cached +
			"}\nhandle {\n" + cached + "}"},
		"handles by header": {site: "@o header X-A b\nhandle @o {\n" + cached + "}\nhandle {\n" + cached + "}"},
		"handle_paths": {site: "handle_path /anthropic/* {\n" + cached + "}\nhandle_path /openai/* {\n" +
			cached + "}"},
		"handles within handle": {site: "handle /a/* {\nhandle /a/1/* {\n" + cached + "}\nhandle {\n" + cached +
			"}\n}\nhandle {\n" + cached + "}"},
		"exclusive matchers": {site: "@a header X-A b\n@b not header X-A b\nllm_cache @a\nllm_cache @b " +
			"{\npolicy observe\n}\n" + proxy},
		"twice": {
			site: "llm_cache\nllm_cache {\npolicy observe\n}\n" + proxy,
			want: []string{twice},
		},
		"twice, around and in handle": {site: "llm_cache\nhandle /v1/* {\n" + cached + "}", want: []string{twice}},
		"twice for some": {site: "@a header X-A b\nllm_cache\nhandle @a {\n" + cached + "}\nhandle {\n" +
			proxy + "}", want: []string{twice}},
		"twice within handle": {site: "@a header X-A b\nhandle @a {\nllm_cache\nllm_cache\n" + proxy +
			"}\nhandle {\n" + cached + "}", want: []string{twice}},
		"behind the proxy": {site: "route {\n" + proxy + "llm_cache\n}", want: []string{unreached}},
		"behind respond":   {site: "route {\nrespond hello\n" + cached + "}", want: []string{unreached}},
		"behind handle": {
			site: "route {\nhandle {\n" + proxy + "}\n" + cached + "}",
			want: []string{unreached},
		},
		"behind handle for all APIs": {
			site: "route {\nhandle /v1* {\n" + proxy + "}\n" + cached + "}",
			want: []string{unreached},
		},
		"behind handle for most APIs": {
			site: "route {\nhandle /v1/* {\n" + proxy + "}\n" + cached + "}",
			want: []string{passed},
		},
		"beside a handle for most APIs": {
			site: "handle /v1/* {\n" + proxy + "}\nhandle {\n" + cached + "}",
			want: []string{passed},
		},
		"beside a handle for one API": {
			site: "handle /v1/responses* {\n" + proxy + "}\nhandle {\n" + cached + "}",
			want: []string{"· " + passed},
		},
		"beside a web application":  {site: "handle /v1/messages* {\n" + cached + "}\nhandle {\n" + proxy + "}"},
		"beside another prefix":     {site: "handle /v1/* {\n" + proxy + "}\nhandle /x/* {\n" + cached + "}"},
		"behind a proxy for some":   {site: "route {\nreverse_proxy /v2/* 127.0.0.1:1\n" + cached + "}"},
		"behind embeddings":         {site: "route {\nreverse_proxy /v1/embeddings 127.0.0.1:1\n" + cached + "}"},
		"behind a redirect":         {site: "redir /old /new\n" + cached},
		"behind refusals":           {site: "@stranger not header X-A b\nrespond @stranger 401\n" + cached},
		"forward_auth":              {site: auth + cached},
		"forward_auth for some":     {site: strings.Replace(auth, "auth", "auth /v1/*", 1) + cached},
		"forward_auth, then handle": {site: auth + "llm_cache\nhandle /v1/* {\n" + proxy + "}"},
		"forward_auth in handle":    {site: "handle /v1/* {\n" + auth + cached + "}"},
		"forward_auth alone":        {site: auth + "llm_cache", want: []string{empty}},
		"forward_auth behind":       {site: "route {\nllm_cache\n" + auth + "}", want: []string{noModel}},
		"basic_auth":                {site: "basic_auth {\na $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\n" + cached},
		"named route":               {global: "&(p) {\nroute {\n" + cached + "}\n}", site: "invoke p"},
		"named route of its own": {
			global: "&(p) {\nllm_cache\n" + proxy + "}", site: "invoke p",
			want: []string{alone},
		},
		"named route, then proxy":    {global: "&(p) {\nllm_cache\n}", site: "invoke p\n" + proxy},
		"named route with a matcher": {global: "&(p) {\nllm_cache /v1/*\n" + proxy + "}", site: "invoke p"},
		"named route in a named route": {
			global: "&(q) {\n" + proxy + "}\n&(p) {\nroute {\nllm_cache\ninvoke q\n}\n}",
			site:   "invoke p",
		},
		"named route that invokes itself": {
			global: "&(p) {\nroute {\nllm_cache\ninvoke p\n}\n}", site: "invoke p",
			want: []string{empty},
		},
		"named route in two sites": {global: "&(p) {\nllm_cache\n}\nhttp://a.home.arpa {\ninvoke p\n" + proxy +
			"}\nhttp://b.home.arpa {\ninvoke p\n}", site: "respond hello", want: []string{alone}},
		"nothing behind": {site: "llm_cache\nheader X-A b", want: []string{empty}},
		"nothing behind, beside a proxy": {
			site: "handle /v1/* {\nllm_cache\n}\nhandle {\n" + proxy + "}",
			want: []string{empty},
		},
		"handle, then proxy":             {site: "handle /v1/* {\nllm_cache\n}\n" + proxy},
		"nothing behind for other paths": {site: "llm_cache\nhandle /v1/messages {\n" + proxy + "}"},
		"files":                          {site: "llm_cache\nfile_server", want: []string{noModel}},
		"a page":                         {site: "llm_cache\nrespond hello", want: []string{noModel}},
		"simulated":                      {site: "route {\nllm_cache\nmap {host} {x} {\ndefault 1\n}\n" + proxy + "}"},
		"two sites": {
			global: "http://a.home.arpa {\n" + cached + "}\nhttp://b.home.arpa {\n" + cached + "}",
			site:   "respond hello",
		},
		"two sites, one wrong": {global: "http://a.home.arpa {\n" + cached + "}\nhttp://b.home.arpa {\nroute {\n" +
			proxy + "llm_cache\n}\n}", site: "respond hello", want: []string{unreached}},
		"contradiction": {
			site: "handle /a/* {\nhandle /b/* {\n" + cached + "}\n}",
			want: []string{"llm_cache is never reached: no request for a model is led to it"},
		},
		"in handle_errors":              {site: cached + "handle_errors {\n" + cached + "}"},
		"in handle_errors of some":      {site: proxy + "handle_errors 502 {\n" + cached + "}"},
		"handle_errors, nothing behind": {site: proxy + "handle_errors {\nllm_cache\n}", want: []string{empty}},
		"handle_errors with a page":     {site: cached + "handle_errors {\nrespond sorry\n}"},
		"error behind":                  {site: "llm_cache\nerror 503", want: []string{noModel}},
		"in handle_response": {site: "reverse_proxy 127.0.0.1:1 {\n@gone status 404\nhandle_response @gone {\n" +
			cached + "}\n}"},
		"in handle_response of all": {site: "reverse_proxy 127.0.0.1:1 {\nhandle_response {\n" + cached + "}\n}"},
		"fallback":                  {site: "llm_cache {\nfallback {\n" + cached + "}\n}\n" + proxy},
		"fallback, nothing behind": {
			site: "llm_cache {\nfallback {\nllm_cache\n}\n}\n" + proxy, want: []string{empty},
		},
		"dashboard": {site: "llm_cache_dashboard /team/*\n" + cached},
		"dashboard behind handle": {
			site: "llm_cache_dashboard /team/*\nhandle {\n" + cached + "}",
			want: []string{"llm_cache_dashboard is never reached: what stands in front of it answers every request"},
		},
		"dashboard without a path": {
			site: "llm_cache_dashboard\n" + cached,
			want: []string{"llm_cache_dashboard takes all requests that llm_cache passes on: they reach no model"},
		},
		"dashboard open to all": {
			global: "https://llm.example.com {\nllm_cache_dashboard /team/*\n" + cached + "}",
			site:   "respond hello",
			want:   []string{"· llm_cache_dashboard is open to all who reach the site: names, models and costs"},
		},
		"dashboard behind a key": {global: "https://llm.example.com {\n@x not header X-A b\nrespond @x " +
			"401\nllm_cache_dashboard /team/*\n" + cached + "}", site: "respond hello"},
		"dashboard in handle": {site: "handle /team/* {\nllm_cache_dashboard\n}\nhandle {\n" + cached + "}"},
		"origin":              {site: "llm_cache_origin\n" + cached},
		"origin and handle":   {site: "llm_cache_origin\nhandle /v1/* {\n" + cached + "}"},
		"buffers": {
			site: "llm_cache\nreverse_proxy 127.0.0.1:1 {\nresponse_buffers 1MB\n}",
			want: []string{buffers},
		},
		"buffers in handle": {site: "llm_cache\nhandle {\nreverse_proxy 127.0.0.1:1 {\nresponse_buffers " +
			"1MB\n}\n}", want: []string{buffers}},
		"flushed": {site: "llm_cache\nreverse_proxy 127.0.0.1:1 {\nflush_interval -1\n}"},
		"status": {site: "llm_cache\nreverse_proxy 127.0.0.1:1 {\n@e status 4xx\nreplace_status " +
			"@e 500\n}", want: []string{"· " + statuses}},
		"status of answers": {site: "llm_cache\nreverse_proxy 127.0.0.1:1 {\n@e status 201\nreplace_status " +
			"@e 200\n}"},
		"responses": {site: "llm_cache\nreverse_proxy 127.0.0.1:1 {\n@e status 429\nhandle_response " +
			"@e {\nrespond busy 503\n}\n}", want: []string{"· " + responses}},
		"copied responses": {site: "llm_cache\nreverse_proxy 127.0.0.1:1 {\nhandle_response " +
			"{\ncopy_response\n}\n}", want: []string{"· " + responses}},
		"intercept behind": {site: "route {\nllm_cache\nintercept {\n@e status 403\nreplace_status @e 400\n}\n" + proxy +
			"}", want: []string{"· " + statuses}},
		"intercept in front": {site: "intercept {\n@e status 403\nreplace_status @e 400\n}\n" + cached},
		"status without llm_cache": {site: "handle /a/* {\n" + cached +
			"}\nhandle {\nreverse_proxy 127.0.0.1:1 {\nresponse_buffers 1MB\n}\n}"},
		"php behind":        {site: "route {\nllm_cache\nphp_fastcgi 127.0.0.1:9000\n}"},
		"without llm_cache": {site: proxy},
	} {
		t.Run(name, func(t *testing.T) {
			report := examine(t, "{\nauto_https off\n}\n"+c.global+"\n:8080 {\n"+c.site+"\n}\n")
			var got []string
			for _, f := range report.Findings {
				if f.Remedy == "" {
					t.Errorf("%s has no remedy", f.Message)
				}
				mark := ""
				if f.Note {
					mark = "· "
				}
				got = append(got, mark+f.Message)
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestBaseURLs: agents are pointed at the names of sites with an llm_cache, or else at the server's addresses.
func TestBaseURLs(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		want   []string
	}{
		"address":           {"http://:4000 {\nbind 127.0.0.1\n" + cached + "}", []string{"http://127.0.0.1:4000"}},
		"port":              {":4000 {\n" + cached + "}", []string{"http://localhost:4000"}},
		"name":              {"http://box {\n" + cached + "}", []string{"http://box"}},
		"two of a server":   {"http://a:81, http://b:81 {\n" + cached + "}", []string{"http://a:81", "http://b:81"}},
		"in a block":        {"http://a {\nhandle /v1/* {\n" + cached + "}\nhandle {\n" + cached + "}\n}", []string{"http://a"}},
		"never reached":     {"http://a {\nroute {\n" + proxy + "llm_cache\n}\n}", nil},
		"without llm_cache": {"http://a {\n" + proxy + "}", nil},
		"tls":               {"https://box.test {\ntls internal {\nprotocols tls1.3\n}\n" + cached + "}", []string{"https://box.test"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := examine(t, c.config).BaseURLs; !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A site with many routes that may or may not be taken is walked in bounded time.
func TestExamineMany(t *testing.T) {
	var b strings.Builder
	b.WriteString("route {\n")
	for i := range 60 {
		fmt.Fprintf(&b,
			"@m%d header X-%d a\nheader @m%[1]d X-B c\nhandle /p%[1]d/* {\nrespond hi\n}\nrespond @m%[1]d hello\n", i, i)
	}
	report := examine(t, ":8080 {\n"+b.String()+"llm_cache\n}\n}\n")
	if len(report.Findings) != 1 || report.Findings[0].Message != empty {
		t.Errorf("got %+v, want %q", report.Findings, empty)
	}
	for i := range 30 {
		fmt.Fprintf(&b, "@n%d header X-%d a\nroute @n%[1]d {\nheader X-A b\n}\n", i, i)
	}
	report = examine(t, ":8080 {\n"+b.String()+"llm_cache\n}\n}\n")
	if len(report.Findings) != 1 || !report.Findings[0].Note || !strings.HasPrefix(report.Findings[0].Message,
		"the routes are too many") {
		t.Errorf("got %+v, want a note that there are too many routes", report.Findings)
	}
}

func examine(t *testing.T, caddyfile string) routes.Report {
	t.Helper()
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), nil)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Apps struct {
			HTTP struct {
				Servers map[string]*caddyhttp.Server `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	return routes.Examine(config.Apps.HTTP.Servers)
}
