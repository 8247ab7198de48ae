// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/cookiejar"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/postgres"
)

// issuer is an OpenID Connect issuer that signs in whoever asks, as the user set before.
type issuer struct {
	url string
	key *rsa.PrivateKey

	mu          sync.Mutex
	user, nonce string
}

func startIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	i.url = "http://" + behave(t, "", func(*httputil.ReverseProxy, http.Handler) http.Handler { return i })
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	encode := base64.RawURLEncoding.EncodeToString
	var answer any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		answer = map[string]any{
			"issuer": i.url, "authorization_endpoint": i.url + "/authorize", "token_endpoint": i.url + "/token",
			"jwks_uri": i.url + "/keys", "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{"RS256"},
		}
	case "/keys":
		answer = map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "kid": "key", "use": "sig", "alg": "RS256", "n": encode(i.key.N.Bytes()),
			"e": encode(big.NewInt(int64(i.key.E)).Bytes()),
		}}}
	case "/authorize":
		q := r.URL.Query()
		i.nonce = q.Get("nonce")
		back := url.Values{"code": {"code"}, "state": {q.Get("state")}}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
		return
	default:
		now := time.Now().Unix()
		head, _ := json.Marshal(map[string]any{"alg": "RS256", "kid": "key", "typ": "JWT"})
		claims, _ := json.Marshal(map[string]any{
			"iss": i.url, "sub": "id-" + i.user, "aud": "gateway", "iat": now, "exp": now + 3600, "nonce": i.nonce,
			"email": i.user + "@example.com", "email_verified": true, "groups": []string{"web"},
		})
		token := encode(head) + "." + encode(claims)
		sum := sha256.Sum256([]byte(token))
		signature, err := rsa.SignPKCS1v15(nil, i.key, crypto.SHA256, sum[:])
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer = map[string]any{
			"access_token": "access", "token_type": "Bearer", "expires_in": 3600, "id_token": token + "." + encode(signature),
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// signIn signs a user in at a gateway by the device flow, as `claude /login` and a browser do, and returns
// the user's token.
func (i *issuer) signIn(t *testing.T, gateway, user string) string {
	t.Helper()
	i.mu.Lock()
	i.user = user
	i.mu.Unlock()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	post := func(path string, form url.Values, into any) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{
			"Content-Type": {"application/x-www-form-urlencoded"}, "User-Agent": {"claude-code/2.1.330"}, "Origin": {gateway},
		}
		res, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if into != nil {
			if err := json.Unmarshal(body, into); err != nil {
				t.Fatalf("%s: %v in %.300s", path, err, body)
			}
		}
		return res.StatusCode
	}
	var device struct {
		Device string `json:"device_code"`
		User   string `json:"user_code"`
	}
	if status := post("/oauth/device_authorization", url.Values{"client_id": {"claude-code"}}, &device); status != http.StatusOK {
		t.Fatalf("device authorization: got %d, want 200", status)
	}
	if status := post("/device", url.Values{"user_code": {device.User}}, nil); status != http.StatusOK {
		t.Fatalf("sign-in of %s: got %d, want 200", user, status)
	}
	var token struct {
		Token string `json:"access_token"`
	}
	eventually(t, "a token of "+user, func() bool {
		return post("/oauth/token", url.Values{
			"grant_type":  {"urn:ietf:params:oauth:grant-type:device_code"},
			"device_code": {device.Device}, "client_id": {"claude-code"},
		}, &token) == http.StatusOK
	})
	return token.Token
}

// startAppsGateway starts `claude gateway` at an address, with a public URL and an upstream, which gets the
// users' names if named is set.
func startAppsGateway(t *testing.T, i *issuer, db *postgres.Server, addr, public, upstream string, named bool) {
	t.Helper()
	host, port, _ := strings.Cut(addr, ":")
	home := t.TempDir()
	file := filepath.Join(home, "gateway.yaml")
	config := fmt.Sprintf(`listen: {host: %s, port: %s, public_url: %q}
oidc: {issuer: %q, client_id: gateway, client_secret: secret}
session: {jwt_secret: %q}
store: {postgres_url: %q}
upstreams:
  - provider: anthropic
    base_url: %q
    auth: {api_key: sk-ant-gateway}
    forward_user_identity: %t
`, host, port, public, i.url, strings.Repeat("secret", 8), db.DSN, upstream, named)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, needClient(t, claudeCode{}), "gateway", "--config", file)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CLAUDE_GATEWAY_ALLOW_LOOPBACK=1", "DO_NOT_TRACK=1"}
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		log.Close()
		if b, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the gateway's log ends with\n%s", tail(b))
		}
	})
	eventually(t, "an answer of claude gateway", func() bool {
		res, err := http.Get("http://" + addr + "/protocol")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// signedIn is Claude Code with the token of a sign-in.
type signedIn struct {
	claudeCode
	token string
}

func (c signedIn) command(home, prompt string, further bool) (args, env []string) {
	args, env = c.claudeCode.command(home, prompt, further)
	for i := range env {
		env[i] = strings.Replace(env[i], "ANTHROPIC_API_KEY="+testKey, "ANTHROPIC_AUTH_TOKEN="+c.token, 1)
	}
	return args, env
}

// TestAppsGateway runs Claude Code with Claude apps gateway (`claude gateway`) before and behind llm_cache,
// with a sign-in. History is folded, and budgets hold, in both orders.
func TestAppsGateway(t *testing.T) {
	t.Parallel()
	needClient(t, claudeCode{})
	dir, err := os.MkdirTemp("", "llm_cache-pg-") //nolint:usetesting // its user must get in, and a socket's name be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	addrs, err := caddy.FreeAddrs(11)
	if err != nil {
		t.Fatal(err)
	}
	db, err := postgres.New(dir, addrs[10])
	if errors.Is(err, postgres.ErrMissing) {
		lacking(t, err.Error())
	}
	if err == nil {
		err = db.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Stop() })
	i := startIssuer(t)

	for n, c := range []struct {
		name    string
		first   bool   // the gateway is before llm_cache
		options string // of the app
		handler string
		person  string // in metrics, "" for a hash of the token
		limit   string // an option that ends ben
		says    string
	}{
		{
			"before", true, "user {http.request.header.X-Claude-Gateway-User-Email}",
			"tenant {http.request.header.X-Claude-Gateway-User-Id}", "anna@example.com",
			"user ben@example.com {\nbudget 1 tokens day\n}", "the budget of ben@example.com, ",
		},
		{"behind", false, "", "", "", "site {\nbudget 1 tokens month\n}", "the budget of this site, "},
	} {
		addrs := addrs[5*n:]
		t.Run(c.name, func(t *testing.T) {
			s := &stack{url: "http://" + addrs[1], dir: t.TempDir()}
			var mu sync.Mutex
			var seen []http.Header // of requests at the model
			model := "http://" + behave(t, addrs[3], func(_ *httputil.ReverseProxy, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					seen = append(seen, r.Header.Clone())
					mu.Unlock()
					next.ServeHTTP(w, r)
				})
			})
			gateway := "http://" + addrs[4]
			upstream := model
			if c.first {
				s.url = gateway
				startAppsGateway(t, i, db, addrs[4], gateway, "http://"+addrs[1], true)
			} else {
				upstream = gateway
				startAppsGateway(t, i, db, addrs[4], s.url, model, false)
			}
			r := newRepository(t, claudeCode{})
			steps := r.first()
			script, err := json.Marshal(steps)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(s.dir, "script.json"), script, 0o600); err != nil {
				t.Fatal(err)
			}
			s.start(t, "model", addrs[2], site(addrs[2], addrs[3], "model", "llm_cache_simulator ../script.json"))
			config := site(addrs[0], addrs[1], "front", "llm_cache {\npolicy eager\n"+c.handler+"\n}\nreverse_proxy "+upstream+
				" {\nheader_up -X-Claude-Gateway-*\nheader_up -X-Litellm-End-User-Id\n}")
			with := func(options string) string {
				return strings.Replace(config, "auto_https off", "auto_https off\nllm_cache {\naudit sqlite "+
					filepath.Join(s.dir, "audit.db")+"\n"+options+"\n}", 1)
			}
			s.Process = s.start(t, "front", addrs[0], with(c.options))

			anna := newUser(t, signedIn{claudeCode{s.url, "claude-sonnet-4-5"}, i.signIn(t, s.url, "anna")}, r.dir)
			anna.ask(t, firstPrompt, steps)
			r.check(t)
			if n := s.metric(t, "caddy_llm_cache_edits_total"); n == 0 {
				t.Error("got no edit of the history, want some")
			}
			if c.person != "" && !s.counts(t, c.person) {
				t.Errorf("got no turn of %s in the metrics", c.person)
			}
			mu.Lock()
			if len(seen) < len(steps) {
				t.Errorf("got %d requests at the model, want %d at least", len(seen), len(steps))
			}
			for _, h := range seen {
				if h.Get("X-Api-Key") != "sk-ant-gateway" || h.Get("Authorization") != "" ||
					h.Get("X-Claude-Gateway-User-Email") != "" {
					t.Fatalf("got the headers %v at the model, want the gateway's key and no user", h)
				}
			}
			mu.Unlock()

			ben := i.signIn(t, s.url, "ben")
			if err := s.Reload(t.Context(), with(c.options+"\n"+c.limit)); err != nil {
				t.Fatal(err)
			}
			ask := func() (*http.Response, string) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/messages", strings.NewReader(
					`{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"Hello."}]}`))
				if err != nil {
					t.Fatal(err)
				}
				req.Header = http.Header{
					"Content-Type": {"application/json"}, "Authorization": {"Bearer " + ben}, "Anthropic-Version": {"2023-06-01"},
				}
				// A reload ends idle connections, and those that its listener has not accepted yet.
				res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
				if err != nil {
					return &http.Response{StatusCode: http.StatusBadGateway}, err.Error()
				}
				defer res.Body.Close()
				b, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				return res, string(b)
			}
			var res *http.Response
			var body string
			eventually(t, "a spent budget", func() bool {
				res, body = ask() //nolint:bodyclose // ask has closed it
				// The gateway sends nothing again where the reload has ended its idle connection.
				return res.StatusCode != http.StatusOK && res.StatusCode != http.StatusBadGateway
			})
			if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("X-Should-Retry") != "false" ||
				!strings.Contains(body, "billing_error") || !strings.Contains(body, c.says) {
				t.Errorf("got %d, %v, %s; want a final 429 of %q", res.StatusCode, res.Header, body, c.says)
			}
			// The gateway takes its upstream's usage headers off, and the client sees those of llm_cache in front.
			if has := res.Header.Get("Anthropic-Ratelimit-Unified-Status") != ""; has == c.first {
				t.Errorf("got usage headers %t, want %t: %v", has, !c.first, res.Header)
			}
		})
	}
}
