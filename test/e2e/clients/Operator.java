// SPDX-License-Identifier: Apache-2.0
// An operator in a pod, in Java, with nothing but the JDK: neither Fabric8's client nor the official
// one is in a package here. It does what both of them do by their in-cluster configuration: the API
// server is where KUBERNETES_SERVICE_HOST and _PORT say, trusted is ca.crt of the service account's
// folder, with the name looked at, and its token is read again every minute. The HttpClient is one
// of those that Fabric8's can be built on; it prefers HTTP/2.
//
//   java Operator NAMESPACE NAME IDENTITY RESOURCE
//
// Lists and watches RESOURCE[@NAMESPACE] of the core group, keeps a cache, stands for election by the
// Lease NAMESPACE/NAME; prints what happens, a JSON object a line. "dump" on standard input prints the
// cache; "quit", or its end, ends the program.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class Operator {
    private static final Path ACCOUNT = Path.of("/var/run/secrets/kubernetes.io/serviceaccount");
    private static final Duration TOKEN_AGE = Duration.ofMinutes(1);
    private static final long RETRY_MS = 500;
    private static final int LEASE_SECONDS = 8;

    public static void main(String[] args) throws Exception {
        Api api = new Api();
        Informer informer = new Informer(api, args[3]);
        start(informer::run);
        start(new Elector(api, args[0], args[1], args[2])::run);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = commands.readLine()) != null && !line.strip().equals("quit");) {
            if (line.strip().equals("dump")) {
                print("dump", Map.of("stores", Map.of(args[3], informer.cache)));
            }
        }
        System.exit(0);
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    private static synchronized void print(String kind, Map<String, ?> fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        Instant now = Instant.now();
        line.put("kind", kind);
        line.put("t", now.getEpochSecond() * 1_000_000_000L + now.getNano());
        line.putAll(fields);
        System.out.println(Json.write(line));
        System.out.flush();
    }

    private static void pause() {
        try {
            Thread.sleep(RETRY_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** An answer that is no success. */
    private static final class ApiException extends IOException {
        final int code;

        ApiException(int code, String body) {
            super(code + ": " + body);
            this.code = code;
        }
    }

    /** The API server as a pod knows it. */
    private static final class Api {
        final HttpClient client;
        final String server;
        private String token;
        private Instant tokenRead;

        Api() throws Exception {
            String host = System.getenv("KUBERNETES_SERVICE_HOST");
            server = "https://" + (host.contains(":") ? "[" + host + "]" : host) + ":"
                    + System.getenv("KUBERNETES_SERVICE_PORT");
            client = HttpClient.newBuilder().sslContext(trustAuthority()).build();
        }

        private static SSLContext trustAuthority() throws Exception {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            try (var file = Files.newInputStream(ACCOUNT.resolve("ca.crt"))) {
                for (Certificate c : CertificateFactory.getInstance("X.509").generateCertificates(file)) {
                    store.setCertificateEntry("authority-" + store.size(), c);
                }
            }
            TrustManagerFactory trust =
                    TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return context;
        }

        private synchronized String token() throws IOException {
            Instant now = Instant.now();
            if (token == null || tokenRead.plus(TOKEN_AGE).isBefore(now)) {
                token = Files.readString(ACCOUNT.resolve("token")).strip();
                tokenRead = now;
            }
            return token;
        }

        HttpRequest.Builder request(String target) throws IOException {
            return HttpRequest.newBuilder(URI.create(server + target))
                    .header("Authorization", "Bearer " + token())
                    .header("Accept", "application/json");
        }

        /** Sends it and reads the whole answer; `body` may be null. */
        HttpResponse<String> send(String method, String target, Object body) throws Exception {
            var publisher = body == null ? HttpRequest.BodyPublishers.noBody()
                    : HttpRequest.BodyPublishers.ofString(Json.write(body));
            HttpRequest request = request(target).method(method, publisher)
                    .header("Content-Type", "application/json").timeout(Duration.ofSeconds(20)).build();
            HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() >= 300) {
                throw new ApiException(answer.statusCode(), answer.body());
            }
            return answer;
        }

        /** An answer line by line, as it comes. */
        Stream<String> stream(String target) throws Exception {
            HttpResponse<Stream<String>> answer =
                    client.send(request(target).build(), HttpResponse.BodyHandlers.ofLines());
            if (answer.statusCode() >= 300) {
                throw new ApiException(answer.statusCode(), "watch");
            }
            return answer.body();
        }
    }

    /** List, watch, and what is known. */
    private static final class Informer {
        final Map<String, String> cache = new ConcurrentHashMap<>(); // key -> resourceVersion
        private final Api api;
        private final String resource;
        private final String path;
        private boolean synced;

        Informer(Api api, String resource) {
            String[] parts = resource.split("@");
            this.api = api;
            this.resource = resource;
            this.path = "/api/v1/" + (parts.length > 1 ? "namespaces/" + parts[1] + "/" : "") + parts[0];
        }

        void run() {
            while (true) {
                try {
                    watch(list());
                } catch (Exception e) {
                    Map<String, Object> fields = new HashMap<>();
                    fields.put("watch", resource);
                    fields.put("message", e.toString());
                    fields.put("code", e instanceof ApiException refused ? refused.code : 0);
                    print("error", fields);
                    pause();
                }
            }
        }

        private String list() throws Exception {
            HttpResponse<String> answer = api.send("GET", path, null);
            Object list = Json.read(answer.body());
            List<?> items = (List<?>) Json.get(list, "items");
            String version = Json.text(list, "metadata", "resourceVersion");
            print("list", Map.of("watch", resource, "rv", version, "items", items.size(),
                    "http", answer.version().toString()));
            Set<String> found = new HashSet<>();
            for (Object item : items) {
                found.add(key(item));
                keep(item);
            }
            for (String known : new ArrayList<>(cache.keySet())) {
                if (!found.contains(known)) {
                    print("delete", Map.of("watch", resource, "key", known, "rv", cache.remove(known)));
                }
            }
            if (!synced) {
                synced = true;
                print("sync", Map.of("watch", resource));
            }
            return version;
        }

        /** Until the watch ends. */
        private void watch(String version) throws Exception {
            while (true) {
                print("watch", Map.of("watch", resource, "rv", version));
                String target = path + "?watch=true&resourceVersion=" + version;
                try (Stream<String> lines = api.stream(target)) {
                    for (var each = lines.iterator(); each.hasNext();) {
                        version = take(Json.read(each.next()));
                    }
                }
            }
        }

        /** Returns the version from which to go on. */
        private String take(Object event) throws IOException {
            Object object = Json.get(event, "object");
            switch (Json.text(event, "type")) {
                case "ADDED", "MODIFIED" -> keep(object);
                case "DELETED" -> {
                    cache.remove(key(object));
                    shown("delete", object);
                }
                default -> throw new ApiException(((Number) Json.get(object, "code")).intValue(), "event");
            }
            return Json.text(object, "metadata", "resourceVersion");
        }

        private void keep(Object object) {
            String version = Json.text(object, "metadata", "resourceVersion");
            String before = cache.put(key(object), version);
            if (!Objects.equals(before, version)) {
                shown(before == null ? "add" : "update", object);
            }
        }

        private void shown(String kind, Object object) {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("watch", resource);
            fields.put("key", key(object));
            fields.put("rv", Json.text(object, "metadata", "resourceVersion"));
            fields.put("labels", Json.get(object, "metadata", "labels"));
            print(kind, fields);
        }

        private static String key(Object object) {
            return Json.text(object, "metadata", "namespace") + "/" + Json.text(object, "metadata", "name");
        }
    }

    /** Leads as long as the Lease bears its name. */
    private static final class Elector {
        private static final DateTimeFormatter MICRO_TIME =
                DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'").withZone(ZoneOffset.UTC);
        private final Api api;
        private final String leases;
        private final String name;
        private final String identity;

        Elector(Api api, String namespace, String name, String identity) {
            this.api = api;
            this.leases = "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases";
            this.name = name;
            this.identity = identity;
        }

        void run() {
            boolean leads = false;
            while (true) {
                boolean now = false;
                try {
                    now = tryToLead();
                } catch (Exception e) {
                    print("error", Map.of("message", e.toString()));
                }
                if (now != leads) {
                    print(now ? "leading" : "stopped", Map.of());
                }
                leads = now;
                pause();
            }
        }

        private boolean tryToLead() throws Exception {
            Object lease;
            try {
                lease = Json.read(api.send("GET", leases + "/" + name, null).body());
            } catch (ApiException e) {
                if (e.code != 404) {
                    throw e;
                }
                api.send("POST", leases, Map.of("metadata", Map.of("name", name), "spec", mine()));
                return true;
            }
            String holder = Json.text(lease, "spec", "holderIdentity");
            if (holder != null && !holder.isEmpty() && !holder.equals(identity) && !isOver(lease)) {
                return false;
            }
            @SuppressWarnings("unchecked")
            var spec = (Map<String, Object>) Json.get(lease, "spec");
            spec.putAll(mine());
            api.send("PUT", leases + "/" + name, lease);
            return true;
        }

        private Map<String, Object> mine() {
            return Map.of("holderIdentity", identity, "leaseDurationSeconds", LEASE_SECONDS,
                    "renewTime", MICRO_TIME.format(Instant.now()));
        }

        private static boolean isOver(Object lease) {
            Instant renewed = Instant.parse(Json.text(lease, "spec", "renewTime"));
            long held = ((Number) Json.get(lease, "spec", "leaseDurationSeconds")).longValue();
            return renewed.plusSeconds(held).isBefore(Instant.now());
        }
    }

    /** As much JSON as this needs: the JDK has none. */
    private static final class Json {
        private final String text;
        private int at;

        private Json(String text) {
            this.text = text;
        }

        static Object read(String text) {
            return new Json(text).value();
        }

        static Object get(Object tree, String... path) {
            for (String name : path) {
                tree = tree instanceof Map<?, ?> map ? map.get(name) : null;
            }
            return tree;
        }

        static String text(Object tree, String... path) {
            return (String) get(tree, path);
        }

        static String write(Object value) {
            if (value instanceof Map<?, ?> map) {
                List<String> parts = new ArrayList<>();
                map.forEach((name, one) -> parts.add(quote((String) name) + ":" + write(one)));
                return "{" + String.join(",", parts) + "}";
            }
            if (value instanceof List<?> list) {
                return "[" + String.join(",", list.stream().map(Json::write).toList()) + "]";
            }
            return value instanceof String string ? quote(string) : String.valueOf(value);
        }

        private static String quote(String string) {
            StringBuilder out = new StringBuilder("\"");
            for (char c : string.toCharArray()) {
                if (c == '"' || c == '\\') {
                    out.append('\\').append(c);
                } else if (c < ' ') {
                    out.append(String.format("\\u%04x", (int) c));
                } else {
                    out.append(c);
                }
            }
            return out.append('"').toString();
        }

        private char next() {
            while (Character.isWhitespace(text.charAt(at))) {
                at++;
            }
            return text.charAt(at);
        }

        private boolean skip(char wanted) {
            boolean is = next() == wanted;
            at += is ? 1 : 0;
            return is;
        }

        private Object value() {
            switch (next()) {
                case '{':
                    return object();
                case '[':
                    return array();
                case '"':
                    return string();
                default:
                    int from = at;
                    while (at < text.length() && ",]} \n".indexOf(text.charAt(at)) < 0) {
                        at++;
                    }
                    return literal(text.substring(from, at));
            }
        }

        private static Object literal(String word) {
            return switch (word) {
                case "null" -> null;
                case "true", "false" -> Boolean.valueOf(word);
                default -> word.matches("-?\\d+") ? (Object) Long.valueOf(word) : Double.valueOf(word);
            };
        }

        private Map<String, Object> object() {
            Map<String, Object> map = new LinkedHashMap<>();
            at++;
            while (!skip('}')) {
                next();
                String name = string();
                skip(':');
                map.put(name, value());
                skip(',');
            }
            return map;
        }

        private List<Object> array() {
            List<Object> list = new ArrayList<>();
            at++;
            while (!skip(']')) {
                list.add(value());
                skip(',');
            }
            return list;
        }

        private String string() {
            StringBuilder out = new StringBuilder();
            for (at++; text.charAt(at) != '"'; at++) {
                if (text.charAt(at) != '\\') {
                    out.append(text.charAt(at));
                    continue;
                }
                char escaped = text.charAt(++at);
                int known = "bfnrt".indexOf(escaped);
                if (escaped == 'u') {
                    out.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                    at += 4;
                } else {
                    out.append(known < 0 ? escaped : "\b\f\n\r\t".charAt(known));
                }
            }
            at++;
            return out.toString();
        }
    }
}
