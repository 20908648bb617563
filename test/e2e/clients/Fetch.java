// SPDX-License-Identifier: Apache-2.0
// Fetches URL with the JDK's HttpClient, whose proxy is that of the system properties, and prints status
// and body, or the error, as JSON. Trusted is what the PEM file AUTHORITY has.
//
//   java -Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT Fetch URL AUTHORITY

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class Fetch {
    private static SSLContext trust(String authority) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        byte[] pem = Files.readAllBytes(Path.of(authority));
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        store.setCertificateEntry("ca", factory.generateCertificate(new ByteArrayInputStream(pem)));
        TrustManagerFactory managers =
            TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context;
    }

    private static String quote(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + '"';
    }

    public static void main(String[] args) throws Exception {
        HttpClient client = HttpClient.newBuilder()
                                .sslContext(trust(args[1]))
                                .connectTimeout(Duration.ofSeconds(20))
                                .build();
        HttpRequest request = HttpRequest.newBuilder(URI.create(args[0])).build();
        try {
            HttpResponse<String> answer =
                client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.printf("{\"status\": %d, \"body\": %s}%n", answer.statusCode(),
                              quote(answer.body()));
        } catch (IOException e) {
            System.out.printf("{\"error\": %s}%n", quote(String.valueOf(e.getMessage())));
        }
    }
}
