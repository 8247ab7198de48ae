// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
)

// kept is a storage in memory.
type kept struct {
	sync.Mutex
	files map[string][]byte
}

func (k *kept) Load(_ context.Context, key string) ([]byte, error) {
	k.Lock()
	defer k.Unlock()
	if text, ok := k.files[key]; ok {
		return text, nil
	}
	return nil, fs.ErrNotExist
}

func (k *kept) Store(_ context.Context, key string, text []byte) error {
	k.Lock()
	defer k.Unlock()
	k.files[key] = text
	return nil
}

// modelsFile prices Opus 6 at so many dollars.
func modelsFile(collected, input string) []byte {
	return []byte(`{"collected": "` + collected +
		`", "vendors": {"anthropic": {"families": {"claude-opus": {"claude-opus-6": {"prices": [{"input": ` + input +
		`, "output": 99}]}}}}}}`)
}

// TestPricesFrom: a file at a URL takes the place of the built-in rows if its pin is right,
// it can be read and it is no older than the program; the last one is in the storage.
func TestPricesFrom(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	key := base64.StdEncoding.EncodeToString(der)
	newer, older := modelsFile("2027-01-01", "33"), modelsFile("2026-01-01", "33")
	sum := sha256.Sum256(newer)
	for name, tt := range map[string]struct {
		from      PricesFrom
		text, sig []byte
		status    int
		own       string
		want      float64 // the price of Opus 6; 15 is that of Opus 4.1, the dearest of the family
	}{
		"by key": {from: PricesFrom{Key: key}, text: newer, sig: ed25519.Sign(private, newer), want: 33},
		"raw key, base64": {
			from: PricesFrom{Key: base64.StdEncoding.EncodeToString(public)}, text: newer,
			sig: []byte(base64.StdEncoding.EncodeToString(ed25519.Sign(private, newer)) + "\n"), want: 33,
		},
		"by hash": {from: PricesFrom{SHA256: hex.EncodeToString(sum[:])}, text: newer, want: 33},
		"the operator's": {
			from: PricesFrom{Key: key}, text: newer, sig: ed25519.Sign(private, newer),
			own: string(modelsFile("2026-01-01", "7")), want: 7,
		},
		"another file": {from: PricesFrom{SHA256: hex.EncodeToString(sum[:])}, text: older, want: 15},
		"a wrong key":  {from: PricesFrom{Key: key}, text: newer, sig: ed25519.Sign(private, older), want: 15},
		"no signature": {from: PricesFrom{Key: key}, text: newer, want: 15},
		"older":        {from: PricesFrom{Key: key}, text: older, sig: ed25519.Sign(private, older), want: 15},
		"unreadable": {
			from: PricesFrom{Key: key}, text: []byte("{"), sig: ed25519.Sign(private, []byte("{")),
			want: 15,
		},
		"the server fails": {
			from: PricesFrom{Key: key}, text: newer, sig: ed25519.Sign(private, newer),
			status: http.StatusBadGateway, want: 15,
		},
	} {
		asked := make(chan string, 4)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tt.status != 0 {
				w.WriteHeader(tt.status)
			} else if strings.HasSuffix(r.URL.Path, ".sig") {
				_, _ = w.Write(tt.sig)
			} else {
				_, _ = w.Write(tt.text)
			}
			asked <- r.URL.Path
		}))
		storage := &kept{files: map[string][]byte{}}
		started := func() *App {
			from := tt.from
			from.URL = server.URL + "/models.json"
			if err := from.provision(); err != nil {
				t.Fatal(err)
			}
			a := &App{
				PricesFrom: &from, base: pricing.BuiltIn(), prices: pricing.BuiltIn(), storage: storage,
				logger: zap.NewNop(),
			}
			if tt.own != "" {
				a.ownPrices = &namedText{"own.json", []byte(tt.own)}
			}
			table, err := a.ownPrices.over(a.base)
			if err != nil {
				t.Fatal(err)
			}
			a.prices = table.Refreshable()
			return a
		}
		price := func(a *App) float64 { return a.Prices().Lookup("", "claude-opus-6", time.Now()).Input }

		a := started()
		text, sig, err := a.PricesFrom.fetch(t.Context())
		if err == nil {
			err = errors.Join(a.usePrices(text, sig), a.storePrices(t.Context(), text, sig))
		}
		if price(a) != tt.want {
			t.Errorf("%s: got $%g (%v), want $%g", name, price(a), err, tt.want)
		}
		server.Close()
		if tt.want != 33 {
			continue
		}
		// The next start has the file of the storage, without the server.
		b := started()
		b.loadPrices(t.Context())
		if price(b) != tt.want {
			t.Errorf("%s: after a restart: got $%g, want $%g", name, price(b), tt.want)
		}
		// What lies in the storage is checked, too.
		for key := range storage.files {
			storage.files[key] = append(storage.files[key], ' ')
		}
		c := started()
		if c.loadPrices(t.Context()); price(c) == tt.want {
			t.Errorf("%s: a changed file in the storage is used", name)
		}
	}
}

func TestPricesFromOption(t *testing.T) {
	const key = "key MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="
	for text, want := range map[string]string{
		"prices_from https://a.example/models.json " + key:          "",
		"prices_from https://a.example/models.json every 6h " + key: "",
		"prices_from https://a.example/models.json":                 "either key or sha256 must be given",
		"prices_from https://a.example/models.json every 6h":        "either key or sha256 must be given",
		"prices_from ftp://a.example/models.json " +
			key: `url must be an address by http or https, got "ftp://a.example/models.json"`,
		"prices_from https://a.example/models.json every 1s " + key: "every must be 1m0s or more, got 1s",
		"prices_from https://a.example/models.json key abc":         "key must be an Ed25519 public key in base64",
		"prices_from https://a.example/models.json sha256 abc":      "sha256 must be 64 hexadecimal digits",
		"prices_from https://a.example/models.json daily yes " +
			key: `prices_from must be one of every, key, sha256, got "daily"`,
		"prices_from": "expected <url>",
		"prices_from https://a.example/models.json\nprices_from b.json": "either key",
	} {
		d := caddyfile.NewTestDispenser("llm_cache {\n" + text + "\n}")
		err := new(App).UnmarshalCaddyfile(d)
		if err != nil {
			got := err.Error()
			if want == "" || !strings.Contains(got, want) || !strings.Contains(got, ":2") {
				t.Errorf("%s: got %s, want %s", text, got, want)
			}
		} else if want != "" {
			t.Errorf("%s: got no error, want %s", text, want)
		}
	}
}
