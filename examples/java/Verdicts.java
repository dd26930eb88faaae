import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads the verdicts that a topic has now, and prints the pages with the most duplicates. */
public class Verdicts {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final JsonNode schema;
  // By page: after a crash of a worker a verdict may come again, with the same bytes.
  private final Map<JsonNode, JsonNode> verdicts = new HashMap<>();

  Verdicts(File schema) throws IOException {
    this.schema = JSON.readTree(schema);
  }

  /** Takes a message, if it is a verdict of the version that this program was written for. */
  void add(ConsumerRecord<byte[], byte[]> message) {
    try {
      JsonNode verdict = JSON.readTree(message.value());
      check(verdict);
      verdicts.put(verdict.get("page"), verdict);
    } catch (IOException | IllegalArgumentException error) {
      throw new IllegalArgumentException("No verdict at %s, partition %d, offset %d: %s".formatted(
          message.topic(), message.partition(), message.offset(), error.getMessage()));
    }
  }

  private void check(JsonNode verdict) {
    JsonNode version = schema.at("/properties/schema/const");
    if (!version.equals(verdict.get("schema"))) {
      throw new IllegalArgumentException("the schema is not " + version);
    }
    for (JsonNode field : schema.get("required")) {
      if (!verdict.has(field.asText())) {
        throw new IllegalArgumentException("there is no field " + field);
      }
    }
  }

  /** Prints how many pages there are, and for each kept page how many others are like it. */
  void print() {
    Map<JsonNode, Long> copies = verdicts.values().stream()
        .map(verdict -> verdict.get("representative"))
        .filter(representative -> !representative.isNull())
        .collect(Collectors.groupingBy(each -> each.get("page"), Collectors.counting()));
    long duplicates = copies.values().stream().mapToLong(Long::longValue).sum();
    System.out.printf("%d pages, %d duplicates%n", verdicts.size(), duplicates);
    copies.entrySet().stream()
        .sorted(Map.Entry.<JsonNode, Long>comparingByValue(Comparator.reverseOrder()))
        .limit(10)
        .forEach(each -> System.out.printf("%6d  %s%n", each.getValue(), url(each.getKey())));
  }

  private String url(JsonNode page) {
    return verdicts.containsKey(page) ? verdicts.get(page).get("url").asText() : page.toString();
  }

  public static void main(String[] arguments) throws IOException {
    String brokers = System.getenv().getOrDefault("STREAMER_BROKERS", "localhost:9092");
    String index = System.getenv().getOrDefault("STREAMER_INDEX_NAME", "streamer");
    Verdicts verdicts = new Verdicts(new File(arguments[0]));
    var format = new ByteArrayDeserializer();
    Map<String, Object> settings = Map.of("bootstrap.servers", brokers);
    try (var consumer = new KafkaConsumer<>(settings, format, format)) {
      var partitions = consumer.partitionsFor(index + ".verdicts").stream()
          .map(each -> new TopicPartition(each.topic(), each.partition()))
          .toList();
      if (partitions.isEmpty()) {
        throw new IllegalStateException("There is no topic " + index + ".verdicts.");
      }
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      var ends = consumer.endOffsets(partitions);
      while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
        for (var message : consumer.poll(Duration.ofSeconds(1))) {
          verdicts.add(message);
        }
      }
    }
    verdicts.print();
  }
}
